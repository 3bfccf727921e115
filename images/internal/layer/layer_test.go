package layer_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/images/internal/layer"
)

// list returns the entries of a layer as "mode name → link size".
func list(t *testing.T, s layer.Source) []string {
	t.Helper()
	l, err := layer.New(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var entries []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(s.Time) {
			t.Errorf("%s belongs to %d:%d, of %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		entries = append(entries, fmt.Sprintf("%o %s %s %d", h.Mode, h.Name, h.Linkname, h.Size))
	}
}

func TestLayerDoesNotDependOnTheCreator(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"usr/lib", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky),
		os.WriteFile(filepath.Join(root, "usr/lib/libx.so.1"), []byte("four"), 0o600),
		os.WriteFile(filepath.Join(root, "usr/run"), nil, 0o700),
		os.Symlink("usr/lib", filepath.Join(root, "lib")),
	); err != nil {
		t.Fatal(err)
	}
	got := list(t, layer.Source{Path: root, To: "/", Time: time.Unix(7, 0)})
	want := []string{"777 lib usr/lib 0", "1777 tmp/  0", "755 usr/  0", "755 usr/lib/  0", "644 usr/lib/libx.so.1  4", "755 usr/run  0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLayerContainsParentFolders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := list(t, layer.Source{Path: file, To: "/usr/bin/prog", Time: time.Unix(0, 0)})
	want := []string{"755 usr/  0", "755 usr/bin/  0", "755 usr/bin/prog  1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestNewRejectsIrregularFiles(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := layer.New(layer.Source{Path: root, To: "/"}); err == nil {
		t.Error("a pipe was packed")
	}
	if _, err := layer.New(layer.Source{Path: filepath.Join(root, "nothing"), To: "/"}); err == nil {
		t.Error("a missing file was packed")
	}
}
