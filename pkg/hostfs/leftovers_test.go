package hostfs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

func TestRemoveLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spec.json")
	// What a process leaves that is killed before it commits.
	left, err := hostfs.Replace(path, 0o644)
	assert.NilError(t, err)
	atWork, err := hostfs.Replace(path, 0o644)
	assert.NilError(t, err)
	defer atWork.Close()
	assert.NilError(t, left.File.Close())
	write(t, path, "spec")
	for _, name := range []string{".other.json.tmp-1", ".spec.json.tmp", "spec.json.tmp-1"} {
		write(t, filepath.Join(dir, name), "")
		old(t, filepath.Join(dir, name))
	}
	assert.NilError(t, os.Mkdir(filepath.Join(dir, ".spec.json.tmp-folder"), 0o755))
	old(t, filepath.Join(dir, ".spec.json.tmp-folder"))
	old(t, path)
	old(t, left.Name())
	old(t, atWork.Name())
	assert.NilError(t, hostfs.RemoveLeftovers(path))
	wantFiles(t, dir, ".other.json.tmp-1", ".spec.json.tmp", filepath.Base(atWork.Name()), ".spec.json.tmp-folder", "spec.json", "spec.json.tmp-1")
	assert.NilError(t, hostfs.RemoveLeftovers(filepath.Join(dir, "missing/spec.json")))
}

func TestRemoveLeftoversOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	for _, path := range paths {
		left, err := hostfs.Replace(path, 0o644)
		assert.NilError(t, err)
		assert.NilError(t, left.Locked())
		assert.NilError(t, left.File.Close())
		old(t, left.Name())
	}
	kept, err := filepath.Glob(filepath.Join(dir, ".c.tmp-*"))
	assert.NilError(t, err)
	assert.NilError(t, hostfs.RemoveLeftoversIn(dir, paths[:2]...))
	wantFiles(t, dir, filepath.Base(kept[0]))
}

// TestReplaceFrom keeps the folder of the file free of temporary files.
func TestReplaceFrom(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "conf.d")
	assert.NilError(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "a.conf")
	left, err := hostfs.ReplaceFrom(above, path, 0o644)
	assert.NilError(t, err)
	wantFiles(t, dir)
	assert.NilError(t, left.File.Close())
	old(t, left.Name())
	r, err := hostfs.ReplaceFrom(above, path, 0o644)
	assert.NilError(t, err)
	assert.NilError(t, r.Commit())
	assert.NilError(t, r.Close())
	wantFiles(t, dir, "a.conf")
	wantFiles(t, above, "conf.d")
}

// TestWritersRemoveLeftovers: what a killed process leaves goes with the next write of its
// file, and when a process finds that it need not write.
func TestWritersRemoveLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "features")
	leave := func() {
		t.Helper()
		left, err := hostfs.Replace(path, 0o644)
		assert.NilError(t, err)
		assert.NilError(t, left.File.Close())
		old(t, left.Name())
	}
	leave()
	assert.NilError(t, hostfs.WriteFile(path, []byte("a"), 0o644))
	wantFiles(t, filepath.Dir(path), "features")
	leave()
	wrote, err := hostfs.WriteIfChanged(path, []byte("a"), 0o644)
	assert.NilError(t, err)
	if wrote {
		t.Error("wrote a file that has not changed")
	}
	wantFiles(t, filepath.Dir(path), "features")
}

func old(t *testing.T, path string) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	assert.NilError(t, os.Chtimes(path, at, at))
}
