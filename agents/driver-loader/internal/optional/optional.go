// Package optional stores the sources of optional kernel modules on the host: nvidia_fs of GPUDirect Storage,
// and gdrdrv of GDRCopy. NVIDIA distributes them in images, separate from the driver.
package optional

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
	"strings"

	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

const (
	recordName = "source.json"
	sourceName = "source"
	maxRecord  = 1 << 20
	// maxFiles and maxSize are the largest number of files, and their largest size in bytes. NVIDIA's
	// sources have less than 100 files and 2 MiB.
	maxFiles = 5000
	maxSize  = 256 << 20
)

// Source is the source of an optional module.
type Source struct {
	// Module is the kernel's name of the module.
	Module  string `json:"module"`
	Version string `json:"version"`
	// Digest is the SHA-256 of all paths, modes and contents, in hexadecimal digits.
	Digest string `json:"digest"`
	// Origin is the imported folder, for people.
	Origin string `json:"origin"`

	// Dir is the folder with the Makefile. Do not build in it.
	Dir string `json:"-"`
}

// prefixes returns the beginnings of the names of folders in /usr/src, by module, as in NVIDIA's packages
// nvidia-fs-dkms and gdrdrv-dkms.
func prefixes() map[string]string {
	return map[string]string{stack.Storage: "nvidia-fs-", stack.GDRCopy: "gdrdrv-"}
}

// Import copies the sources of optional modules into a store. The path from is the root of an image that has
// them in usr/src, or a folder with the sources of one module. Without such sources, Import returns no
// sources. Sources of the same module are replaced.
func Import(ctx context.Context, store, from string) ([]Source, error) {
	var out []Source
	for module, prefix := range prefixes() {
		dir := find(from, prefix)
		if dir == "" {
			continue
		}
		s, err := add(ctx, store, Source{Module: module, Version: strings.TrimPrefix(filepath.Base(dir), prefix), Origin: dir})
		if err != nil {
			return nil, fmt.Errorf("import the sources of %s: %w", module, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// find returns the folder with the sources of a module, or "". Of several versions, it returns the last one
// in the order of names.
func find(from, prefix string) string {
	found, err := filepath.Glob(filepath.Join(from, "usr/src", prefix+"*"))
	if err != nil {
		return ""
	}
	if strings.HasPrefix(filepath.Base(from), prefix) {
		found = append(found, from)
	}
	last := ""
	for _, dir := range found {
		if info, err := os.Stat(filepath.Join(dir, "Makefile")); err == nil && info.Mode().IsRegular() {
			last = dir
		}
	}
	return last
}

func add(ctx context.Context, store string, s Source) (Source, error) {
	var err error
	if s.Digest, err = digest(ctx, s.Origin); err != nil {
		return Source{}, err
	}
	name := fmt.Sprintf("%s-%.16s", s.Version, s.Digest)
	if old, found := List(store)[s.Module]; found && filepath.Base(filepath.Dir(old.Dir)) == name {
		return old, nil
	}
	// Each module has its own folder, so that the containers of two modules do not wait for each other.
	stage, err := staging.New(filepath.Join(store, "sources", s.Module))
	if err != nil {
		return Source{}, err
	}
	dir, err := fill(stage, s, name)
	if err == nil {
		err = removeOthers(store, s.Module, name)
	}
	s.Dir = filepath.Join(dir, sourceName)
	return s, errors.Join(err, stage.Close())
}

func fill(stage *staging.Stage, s Source, name string) (string, error) {
	if err := os.CopyFS(filepath.Join(stage.Dir, sourceName), os.DirFS(s.Origin)); err != nil {
		return "", staging.Explain(stage.Dir, err)
	}
	if err := hostfs.WriteJSON(filepath.Join(stage.Dir, recordName), s, 0o644); err != nil {
		return "", staging.Explain(stage.Dir, err)
	}
	return stage.Commit(name)
}

// removeOthers removes the other sources of a module.
func removeOthers(store, module, keep string) error {
	var errs []error
	for _, s := range all(store) {
		if dir := filepath.Dir(s.Dir); s.Module == module && filepath.Base(dir) != keep {
			errs = append(errs, staging.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// List returns the sources in a store, by module.
func List(store string) map[string]Source {
	out := map[string]Source{}
	for _, s := range all(store) {
		out[s.Module] = s
	}
	return out
}

// all returns the sources in a store. It skips sources that cannot be read.
func all(store string) []Source {
	records, err := filepath.Glob(filepath.Join(store, "sources", "*", "*", recordName))
	if err != nil {
		return nil
	}
	var out []Source
	for _, record := range records {
		dir := filepath.Dir(record)
		s, err := hostfs.ReadJSON[Source](record, maxRecord)
		if s.Dir = filepath.Join(dir, sourceName); err == nil && staging.Complete(filepath.Base(dir)) {
			out = append(out, s)
		}
	}
	return out
}

// digest returns the digest of a folder.
func digest(ctx context.Context, dir string) (string, error) {
	hash := sha256.New()
	files, size := 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if files, size = files+1, size+info.Size(); files > maxFiles || size > maxSize {
			return cause.New(cause.PayloadRejected, dir, fmt.Sprintf("it has more than %d files or %d bytes", maxFiles, maxSize))
		}
		fmt.Fprintf(hash, "%q %s\n", strings.TrimPrefix(path, dir), info.Mode())
		return content(hash, path, info)
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// content writes the content of a file, or the target of a link.
func content(to io.Writer, path string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		fmt.Fprintf(to, "%q\n", target)
		return err
	}
	f, err := hostfs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, io.LimitReader(f, maxSize))
	return err
}
