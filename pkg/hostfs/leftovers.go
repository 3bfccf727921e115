package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leftoverAge is how old a temporary file must be to count as left behind. A
// process that is alive needs its own for moments only.
const leftoverAge = 10 * time.Second

// RemoveLeftovers removes the temporary files of path that processes left behind
// when they were killed in WriteFile or Replace.
func RemoveLeftovers(path string) error {
	dir, prefix := filepath.Dir(path), tempPrefix(path)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < leftoverAge {
			continue // it has gone, or its process is at work
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove leftover: %w", err))
		}
	}
	return errors.Join(errs...)
}

// tempPrefix returns how the names of the temporary files of path begin.
func tempPrefix(path string) string { return "." + filepath.Base(path) + ".tmp-" }
