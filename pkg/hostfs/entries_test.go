package hostfs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/hostfs"
)

// entries watches paths until the test ends, and returns a channel with the
// calls of changed.
func entries(t *testing.T, paths ...string) <-chan struct{} {
	t.Helper()
	calls := make(chan struct{}, 1000)
	agenttest.Run(t, func(ctx context.Context) error {
		return hostfs.WatchEntries(ctx, func() { calls <- struct{}{} }, paths...)
	})
	called(t, calls, "the begin of the watch")
	return calls
}

// called waits for a call and takes those that follow from the same cause.
func called(t *testing.T, calls <-chan struct{}, cause string) {
	t.Helper()
	select {
	case <-calls:
	case <-time.After(5 * time.Minute):
		t.Fatalf("no call after %s", cause)
	}
	quiet(calls)
}

// quiet takes calls until none comes for a while, and returns how many came.
func quiet(calls <-chan struct{}) (n int) {
	for {
		select {
		case <-calls:
			n++
		case <-time.After(50 * time.Millisecond):
			return n
		}
	}
}

func TestWatchEntriesReportsWhatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   bool
	}{
		"a new file":             {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "new"), "x") }, true},
		"a new folder":           {func(t *testing.T, dir string) { assert.NilError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755)) }, true},
		"a removed file":         {func(t *testing.T, dir string) { assert.NilError(t, os.Remove(filepath.Join(dir, "other"))) }, true},
		"a replaced file":        {func(t *testing.T, dir string) { replace(t, filepath.Join(dir, "other")) }, true},
		"a removed watched file": {func(t *testing.T, dir string) { assert.NilError(t, os.Remove(filepath.Join(dir, "specs/spec"))) }, true},
		"a truncated one":        {func(t *testing.T, dir string) { assert.NilError(t, os.Truncate(filepath.Join(dir, "specs/spec"), 0)) }, true},
		"another mode of it":     {func(t *testing.T, dir string) { assert.NilError(t, os.Chmod(filepath.Join(dir, "specs/spec"), 0o600)) }, true},
		"one that replaces it":   {func(t *testing.T, dir string) { replace(t, filepath.Join(dir, "specs/spec")) }, true},
		"a write to a file of a folder": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "other"), "written over") }, false,
		},
		"a file beside a watched file": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "specs/foreign"), "x") }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			assert.NilError(t, os.Mkdir(filepath.Join(dir, "specs"), 0o755))
			write(t, filepath.Join(dir, "other"), "")
			write(t, filepath.Join(dir, "specs/spec"), "spec")
			calls := entries(t, dir, filepath.Join(dir, "specs/spec"), filepath.Join(dir, "missing"))
			c.change(t, dir)
			if c.want {
				called(t, calls, name)
			} else if n := quiet(calls); n > 0 {
				t.Errorf("%d calls after %s, want none", n, name)
			}
		})
	}
}

func TestWatchEntriesFollowsAPathToAnotherFile(t *testing.T) {
	dir := t.TempDir()
	spec := filepath.Join(dir, "spec")
	write(t, spec, "1")
	calls := entries(t, spec)
	replace(t, spec)
	called(t, calls, "a replacement")
	assert.NilError(t, os.Truncate(spec, 0))
	called(t, calls, "a change of the new file")
}

func TestWatchEntriesFollowsAPathThatAppears(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	fact := filepath.Join(folder, "fact")
	calls := entries(t, dir, folder, fact)
	assert.NilError(t, os.Mkdir(folder, 0o755))
	called(t, calls, "its folder")
	write(t, fact, "")
	called(t, calls, "the file")
	assert.NilError(t, os.WriteFile(fact, []byte("x"), 0o600))
	called(t, calls, "a write to the file")
}

func replace(t *testing.T, path string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	write(t, next, "next")
	assert.NilError(t, os.Rename(next, path))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
}
