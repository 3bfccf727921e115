package staging_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
}

// names lists a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// commit puts a folder with one file into parent.
func commit(t *testing.T, parent, name, content string) string {
	t.Helper()
	s, err := staging.New(parent)
	assert.NilError(t, err)
	write(t, s.Dir+"/file", content)
	path, err := s.Commit(name)
	assert.NilError(t, errors.Join(err, s.Close()))
	return path
}

func TestAFolderAppearsWholeAndReplacesAnOldOne(t *testing.T) {
	parent := t.TempDir() + "/parent"
	for _, content := range []string{"one", "two"} {
		path := commit(t, parent, "name", content)
		if data, err := os.ReadFile(path + "/file"); err != nil || string(data) != content {
			t.Errorf("%q, %v", data, err)
		}
		if got := names(t, parent); got != ".lock name" {
			t.Error(got)
		}
	}
	if err := staging.Remove(parent + "/name"); err != nil || names(t, parent) != ".lock" {
		t.Errorf("%v: %s", err, names(t, parent))
	}
	assert.NilError(t, staging.Remove(parent+"/name"))
}

func TestAFolderThatIsNotCommittedIsRemoved(t *testing.T) {
	parent := t.TempDir()
	write(t, parent+"/.new-killed/file", "x")
	s, err := staging.New(parent)
	assert.NilError(t, err)
	if got := names(t, parent); strings.Contains(got, "killed") || staging.Complete(filepath.Base(s.Dir)) {
		t.Error(got)
	}
	write(t, s.Dir+"/file", "x")
	var busy cause.Cause
	if _, err := staging.New(parent); !errors.As(err, &busy) || busy.Code != cause.StoreBusy {
		t.Error(err)
	}
	write(t, parent+"/old/file", "x")
	if err := staging.Remove(parent + "/old"); err != nil || strings.Contains(names(t, parent), "old") {
		t.Errorf("%v: %s", err, names(t, parent))
	}
	assert.NilError(t, s.Close())
	if err := staging.Remove(parent + "/old"); err != nil || names(t, parent) != ".lock" {
		t.Errorf("%v: %s", err, names(t, parent))
	}
}

func TestAFullDiskIsACause(t *testing.T) {
	dir := t.TempDir()
	var full cause.Cause
	if err := staging.Explain(dir, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}); !errors.As(err, &full) || full.Code != cause.NoSpace || !strings.Contains(err.Error(), "MiB are free") {
		t.Error(err)
	}
	if err := staging.Explain(dir, os.ErrPermission); errors.As(err, &full) || !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
	assert.NilError(t, staging.Explain(dir, nil))
}
