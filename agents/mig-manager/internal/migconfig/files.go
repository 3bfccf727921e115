package migconfig

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/reconcile"
)

// Files provides the configs of two files, and generated configs. Generated configs take precedence over
// configs in base, and configs in user take precedence over both. It is not safe for concurrent use.
type Files struct {
	base, user file
	log        *slog.Logger
}

// NewFiles returns the Files for two paths. An empty path means no file.
func NewFiles(base, user string, log *slog.Logger) *Files {
	return &Files{base: file{path: base}, user: file{path: user}, log: log}
}

// Folders returns the folders to watch. Folders are watched because a mounted file is replaced, not
// written.
func (f *Files) Folders() []string {
	var out []string
	for _, path := range []string{f.base.path, f.user.path} {
		if path != "" {
			out = append(out, filepath.Dir(path))
		}
	}
	return out
}

// Select returns the desired state of GPUs for a config, which is in a file or generated for the
// GPUs. If a file is invalid, only the configs that it names fail. If a GPU cannot be read, Select returns an error
// and the desired state of the other GPUs.
func (f *Files) Select(name string, gpus []mig.GPU) (map[gpu.UUID]mig.Desired, error) {
	generated, err := Generate(gpus)
	if err != nil && !errors.Is(err, ErrNoProfiles) {
		return nil, err
	}
	base, user := &f.base, &f.user
	base.read(f.log)
	user.read(f.log)
	if user.rejected.Err() != nil && user.mayName(name) {
		return nil, user.rejected.Err()
	}
	all := base.Merge(generated).Merge(user.Config)
	if _, ok := all.Entries[name]; !ok {
		if base.rejected.Err() != nil && base.mayName(name) {
			return nil, base.rejected.Err()
		}
		err := fmt.Errorf("config %q does not exist: the GPUs of the node have %s", name, strings.Join(orderedNames(all, user.Config), ", "))
		for _, of := range []*file{user, base} {
			if bad := of.rejected.Err(); bad != nil {
				err = fmt.Errorf("%w; a file with more configs cannot be used: %w", err, bad)
			}
		}
		return nil, err
	}
	s, err := all.Select(name, gpus)
	if err != nil {
		return nil, err
	}
	return s.Want, s.Unreadable()
}

// orderedNames returns the names of configs, the user's first, because a long cause is cut at the end.
func orderedNames(all, user Config) []string {
	names := user.Names()
	for _, name := range all.Names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// file is a file with configs. Without a path, it has none.
type file struct {
	Config
	path string
	// text is the content when the file was last read, and rejected is the reason why its configs
	// cannot be used.
	text     []byte
	rejected reconcile.Status
}

// mayName reports whether the file may have a config with a name. It also works for an invalid file.
func (f *file) mayName(name string) bool {
	key := regexp.MustCompile(`(^|[^A-Za-z0-9._-])["']?` + regexp.QuoteMeta(name) + `["']?\s*:`)
	return key.Match(f.text)
}

// read reads the file again. It logs each error once.
func (f *file) read(log *slog.Logger) {
	if f.path == "" {
		return
	}
	f.Config = Config{}
	data, err := configfile.Read(f.path)
	if err == nil {
		f.text = data
		f.Config, err = Read(f.path, data)
	}
	if f.rejected.Set(err) && err != nil {
		log.Error("config file rejected, its configs cannot be used until it is valid", "file", f.path, "err", err)
	}
}
