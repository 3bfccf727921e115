package hostfs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/hostfs"
)

// next returns the next report, by path.
func next(t *testing.T, w *hostfs.Watcher) map[string]hostfs.Op {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	changes, err := w.Next(ctx)
	if err != nil {
		t.Fatalf("no report: %v", err)
	}
	m := map[string]hostfs.Op{}
	for _, c := range changes {
		m[c.Path] = c.Op
	}
	return m
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
