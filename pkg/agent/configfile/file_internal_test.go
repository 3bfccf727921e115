package configfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadSelectsByLabel(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"default", "shared", "..data"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
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

func TestReadBoundsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, maxConfig+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("Read() = %v, want that the file is too large", err)
	}
}
