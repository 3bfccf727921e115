package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
)

const (
	recordName = "modules.json"
	maxRecord  = 1 << 20
	// maxModule is the largest size of a module file, in bytes. NVIDIA's largest has about 100 MiB.
	maxModule = 1 << 30
	// maxModules is the largest number of modules in a set. NVIDIA has seven.
	maxModules = 64
)

// ErrNotFound is returned by Find if the cache does not have the set.
var ErrNotFound = errors.New("the cache does not have these modules")

// Cache stores the built modules of a node, in the folder modules of the agent's store.
type Cache struct {
	// Dir is the agent's store, such as /var/lib/outrigger/driver.
	Dir string
}

func (c Cache) dir(k Key) string { return filepath.Join(c.Dir, "modules", k.Release, k.Sum()) }

// Find returns the set with a key, after it has compared the digests of all files. It removes a
// damaged set, so that the next build replaces it, and returns a Cause with the code
// ModuleCacheCorrupt. Without a set, it returns ErrNotFound.
func (c Cache) Find(ctx context.Context, k Key) (Set, error) {
	if err := k.check(); err != nil {
		return Set{}, fmt.Errorf("find modules: %w", err)
	}
	dir := c.dir(k)
	set, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) && missing(dir) {
		return Set{}, ErrNotFound
	}
	if err == nil {
		err = set.verify(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return set, err
	}
	damage := cause.New(cause.ModuleCacheCorrupt, dir, text.OneLine(err))
	if err := staging.Remove(dir); err != nil {
		damage.Fix = "remove the folder: " + err.Error()
	}
	return Set{}, damage
}

func missing(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Add copies modules into the cache, as the set with the key set.Key. An earlier set with this key
// is replaced. The File of each module is the path of the file to copy. Add keeps Built, BuiltWith,
// Prebuilt, Network and the names of the modules, and derives all other fields from the files.
func (c Cache) Add(ctx context.Context, set Set) (Set, error) {
	if err := set.Key.check(); err != nil {
		return Set{}, fmt.Errorf("add modules to the cache: %w", err)
	}
	if len(set.Modules) == 0 || len(set.Modules) > maxModules {
		return Set{}, fmt.Errorf("add modules to the cache: %d modules", len(set.Modules))
	}
	dir := c.dir(set.Key)
	stage, err := staging.New(filepath.Dir(dir))
	if err != nil {
		return Set{}, err
	}
	set, err = c.fill(ctx, stage, set)
	if err == nil {
		set.Dir, err = stage.Commit(filepath.Base(dir))
	}
	return set, errors.Join(err, stage.Close())
}

func (c Cache) fill(ctx context.Context, stage *staging.Stage, set Set) (Set, error) {
	modules := slices.Clone(set.Modules)
	for i, m := range modules {
		copied, err := copyModule(ctx, m, stage.Dir)
		if err != nil {
			return Set{}, staging.Explain(stage.Dir, err)
		}
		modules[i] = copied
	}
	set.Modules = modules
	return set, staging.Explain(stage.Dir, hostfs.WriteJSON(filepath.Join(stage.Dir, recordName), set, 0o600))
}

// copyModule copies a file into a folder, and returns the module with its size and digest.
func copyModule(ctx context.Context, m Module, dir string) (Module, error) {
	in, err := hostfs.Open(m.File)
	if err != nil {
		return Module{}, err
	}
	defer in.Close()
	m.File = filepath.Base(m.File)
	out, err := os.OpenFile(filepath.Join(dir, m.File), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Module{}, err
	}
	hash := sha256.New()
	m.Size, err = io.Copy(io.MultiWriter(out, hash), pace.Reader(ctx, io.LimitReader(in, maxModule)))
	m.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return m, errors.Join(err, out.Close())
}

// List returns the sets in the cache, without reading the modules. It skips sets that cannot be
// read, and returns their errors.
func (c Cache) List() ([]Set, error) {
	dirs, err := filepath.Glob(filepath.Join(c.Dir, "modules", "*", "*", recordName))
	if err != nil {
		return nil, err
	}
	var sets []Set
	var errs []error
	for _, path := range dirs {
		if !staging.Complete(filepath.Base(filepath.Dir(path))) {
			continue
		}
		set, err := read(filepath.Dir(path))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sets = append(sets, set)
	}
	return sets, errors.Join(errs...)
}

// read returns the set in a folder, from its record.
func read(dir string) (Set, error) {
	set, err := hostfs.ReadJSON[Set](filepath.Join(dir, recordName), maxRecord)
	if err != nil {
		return Set{}, fmt.Errorf("%s cannot be read: %w", recordName, err)
	}
	if set.Key.Sum() != filepath.Base(dir) || set.Key.Release != filepath.Base(filepath.Dir(dir)) {
		return Set{}, fmt.Errorf("%s belongs to other modules", recordName)
	}
	set.Dir = dir
	return set, nil
}

// verify compares all files with their digests.
func (s Set) verify(ctx context.Context) error {
	if len(s.Modules) == 0 || len(s.Modules) > maxModules {
		return fmt.Errorf("has %d modules", len(s.Modules))
	}
	for _, m := range s.Modules {
		if err := m.verify(ctx, s.Dir); err != nil {
			return err
		}
	}
	return nil
}

func (m Module) verify(ctx context.Context, dir string) error {
	if filepath.Base(m.File) != m.File {
		return fmt.Errorf("%q is not a module name", m.File)
	}
	f, err := hostfs.Open(filepath.Join(dir, m.File))
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	// Read one byte more than the recorded size, to detect a longer file.
	size, err := io.Copy(hash, pace.Reader(ctx, io.LimitReader(f, m.Size+1)))
	if err != nil {
		return err
	}
	if size != m.Size || hex.EncodeToString(hash.Sum(nil)) != m.SHA256 {
		return fmt.Errorf("%s differs from its digest", m.File)
	}
	return nil
}

// Path returns the path of a module of the set, or "" if the set does not have it.
func (s Set) Path(name string) string {
	for _, m := range s.Modules {
		if m.Name == name {
			return filepath.Join(s.Dir, m.File)
		}
	}
	return ""
}
