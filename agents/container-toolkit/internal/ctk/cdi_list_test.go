package ctk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestListSaysWhyADeviceIsMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		spec := `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}]}`
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(spec), 0o600))
	}
	expect := func(folder, out, problem string) {
		t.Helper()
		got, stderr, code := nvidiaCTK(t, "cdi", "list", "--spec-dir", folder)
		if code != 0 || got != out || !strings.Contains(stderr, problem) || problem == "" && stderr != "" {
			t.Errorf("cdi list prints %q, %q, exit code %d; want %q, %q", got, stderr, code, out, problem)
		}
	}
	expect(dir, "", "no CDI spec in "+dir+" defines a device")
	expect(filepath.Join(dir, "none"), "", "flag --spec-dir: the folder "+dir+"/none does not exist")
	write("a.json")
	expect(dir, "nvidia.com/gpu=0\n", "")
	write("b.json")
	expect(dir, "nvidia.com/gpu=0\n", "nvidia.com/gpu=0: both "+dir+"/a.json and "+dir+"/b.json define it")
}
