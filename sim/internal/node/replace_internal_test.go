package node

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// An agent that makes device nodes while the driver is loaded must not stop the load.
func TestReplaceAFolderThatSomebodyMade(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "stage"), filepath.Join(dir, "nvidia-caps")
	for _, path := range []string{filepath.Join(from, "nvidia-cap1"), filepath.Join(to, "theirs")} {
		assert.NilError(t, os.MkdirAll(path, 0o755))
	}
	assert.NilError(t, replace(from, to))
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 || left[0].Name() != "nvidia-cap1" {
		t.Errorf("the folder has %v (error %v)", left, err)
	}
}
