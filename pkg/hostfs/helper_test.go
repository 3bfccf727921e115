package hostfs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

// next waits until the watcher reports a change.
func next(t *testing.T, w *hostfs.Watcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	assert.NilError(t, w.Next(ctx), "no report")
}

// mostLeft is more than the number of reports that can be left of what a test did before.
const mostLeft = 20

// goesOn changes the path so often that the reports are of these changes.
func goesOn(t *testing.T, w *hostfs.Watcher, path string) {
	t.Helper()
	for range mostLeft {
		if exists(path) {
			assert.NilError(t, os.RemoveAll(path))
		} else {
			assert.NilError(t, os.MkdirAll(path, 0o755))
		}
		next(t, w)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func all(steps ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, s := range steps {
			s(t, dir)
		}
	}
}

func put(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		assert.NilError(t, os.WriteFile(filepath.Join(dir, path), []byte(path), 0o600))
	}
}

func mkdir(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		assert.NilError(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
}

func remove(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		assert.NilError(t, os.RemoveAll(filepath.Join(dir, path)))
	}
}

func rename(from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		assert.NilError(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
	}
}

func link(to, path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		assert.NilError(t, os.Symlink(to, filepath.Join(dir, path)))
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
