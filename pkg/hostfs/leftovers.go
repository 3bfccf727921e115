package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// leftoverAge is the minimum age of a temporary file that counts as a leftover. A process locks its
// temporary file a moment after it has created it.
const leftoverAge = time.Second

// RemoveLeftovers removes the temporary files for path of processes that were killed in WriteFile
// or Replace. Replace calls it for each file that it writes.
func RemoveLeftovers(path string) error { return RemoveLeftoversIn(filepath.Dir(path), path) }

// RemoveLeftoversIn is RemoveLeftovers for the folder of ReplaceFrom, and for several files.
func RemoveLeftoversIn(dir string, paths ...string) error {
	prefixes := make([]string, len(paths))
	for i, path := range paths {
		prefixes[i] = tempPrefix(path)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	var errs []error
	for _, e := range entries {
		ours := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) })
		temp := filepath.Join(dir, e.Name())
		if !ours || !e.Type().IsRegular() || !isLeftover(temp) {
			continue
		}
		if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove leftover: %w", err))
		}
	}
	return errors.Join(errs...)
}

// isLeftover reports whether the process that created a temporary file has ended.
func isLeftover(temp string) bool {
	f, err := Open(temp)
	if err != nil {
		return false // the file is gone
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || time.Since(info.ModTime()) < leftoverAge {
		return false
	}
	locked, err := WriteLocked(f)
	return err == nil && !locked
}

// tempPrefix returns the prefix of the names of the temporary files for path.
func tempPrefix(path string) string { return "." + filepath.Base(path) + ".tmp-" }
