package hostfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

func TestJSONIsReadAsItWasWritten(t *testing.T) {
	type value struct {
		Name string `json:"name"`
		Size int    `json:"size"`
	}
	path := filepath.Join(t.TempDir(), "new/folder/file.json")
	if got, err := hostfs.ReadJSON[value](path, 100); !errors.Is(err, fs.ErrNotExist) || got != (value{}) {
		t.Errorf("a missing file: %+v, %v", got, err)
	}
	want := value{Name: "x", Size: 7}
	assert.NilError(t, hostfs.WriteJSON(path, want, 0o600))
	if got, err := hostfs.ReadJSON[value](path, 100); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := hostfs.ReadJSON[value](path, 3); err == nil || got != (value{}) {
		t.Errorf("a file that is too large: %+v, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	assert.NilError(t, os.WriteFile(path, []byte(`{"name": "y", "size": "no number"}`), 0o600))
	if got, err := hostfs.ReadJSON[value](path, 100); err == nil || got != (value{}) {
		t.Errorf("an invalid file: %+v, %v", got, err)
	}
	if err := hostfs.WriteJSON(path, func() {}, 0o600); err == nil {
		t.Error("a function was written")
	}
}
