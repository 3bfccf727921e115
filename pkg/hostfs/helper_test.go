package hostfs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/hostfs"
)

// next waits until the watcher reports a change.
func next(t *testing.T, w *hostfs.Watcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.Next(ctx); err != nil {
		t.Fatalf("no report: %v", err)
	}
}

// mostLeft is more than the number of reports that can be left of what a test did before.
const mostLeft = 20

// goesOn changes the path so often that the reports are of these changes.
func goesOn(t *testing.T, w *hostfs.Watcher, path string) {
	t.Helper()
	for range mostLeft {
		if exists(path) {
			must(t, os.RemoveAll(path))
		} else {
			must(t, os.MkdirAll(path, 0o755))
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
		must(t, os.WriteFile(filepath.Join(dir, path), []byte(path), 0o600))
	}
}

func mkdir(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
}

func remove(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.RemoveAll(filepath.Join(dir, path)))
	}
}

func rename(from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
	}
}

func link(to, path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.Symlink(to, filepath.Join(dir, path)))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
