package configfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

func TestReadSelectsByLabel(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"default", "shared", "..data"} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	f := File{Dir: dir}
	if path, data, err := f.read("shared"); path != filepath.Join(dir, "shared") || string(data) != "shared" || err != nil {
		t.Errorf("with the label, the file is %s with %q, %v", path, data, err)
	}
	// Kubernetes has hidden names in a mounted folder.
	for _, label := range []string{"other", "..data"} {
		if _, _, err := f.read(label); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("a label %s without file: %v", label, err)
		}
	}
}

// TestOnlyRegularFilesAreRead: a named pipe would be waited for forever, and a device may
// have no end. In a folder they do not keep the other files from being used.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	assert.NilError(t, unix.Mkfifo(pipe, 0o600))
	for path, kind := range map[string]string{pipe: "named pipe", "/dev/zero": "device"} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+": it is a "+kind+", not a regular file") {
			t.Errorf("Read(%s) = %v, want that it is a %s", path, err, kind)
		}
	}
	assert.NilError(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	// As the kubelet mounts a ConfigMap.
	assert.NilError(t, errors.Join(os.WriteFile(filepath.Join(dir, "..file"), []byte("x"), 0o600), os.Symlink("..file", filepath.Join(dir, "only"))))
	f := File{Dir: dir, chooser: chooser{fallbacks: []string{fallbackSingle}}}
	if path, data, err := f.read(""); path != filepath.Join(dir, "only") || string(data) != "x" || err != nil {
		t.Errorf("read() = %s, %q, %v, want the only regular file", path, data, err)
	}
	if paths, err := f.All(); err != nil || len(paths) != 1 {
		t.Errorf("All() = %v, %v, want the only regular file", paths, err)
	}
}

func TestReadBoundsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	assert.NilError(t, os.WriteFile(path, make([]byte, maxConfig+1), 0o600))
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("Read() = %v, want that the file is too large", err)
	}
}
