package hostfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// inTime fails the test if f does not return.
func inTime(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("it does not return")
		return nil
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	all(put("file"), link("file", "link"), mkdir("dir"))(t, dir)
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for name, tc := range map[string]struct {
		limit     int64
		want, err string
	}{
		"file":      {limit: 4, want: "file"},
		"link":      {limit: 4, want: "file"},
		"./file":    {limit: 3, err: "is larger than 3 bytes"},
		"dir":       {err: "it is a folder, not a regular file"},
		"fifo":      {err: "it is a named pipe, not a regular file"},
		"/dev/zero": {err: "it is a device, not a regular file"},
		"none":      {err: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := name
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, name)
			}
			var got []byte
			err := inTime(t, func() (err error) {
				got, err = hostfs.ReadFile(path, tc.limit)
				return err
			})
			if tc.err == "" && (err != nil || string(got) != tc.want) {
				t.Errorf("ReadFile() = %q, %v, want %q", got, err, tc.want)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), path)) {
				t.Errorf("ReadFile() = %v, want %q and the path", err, tc.err)
			}
		})
	}
}

// TestOnlyRegularFilesAreReplaced: a device node in its place would be gone for all
// programs of the node.
func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	for at, kind := range map[string]string{path: "named pipe", "/dev/full": "device"} {
		err := hostfs.WriteFile(at, []byte("x"), 0o644)
		if err == nil || !strings.Contains(err.Error(), at+": it is a "+kind+", not a regular file") {
			t.Errorf("WriteFile(%s) = %v, want that it is a %s", at, err, kind)
		}
		if info, err := os.Lstat(at); err != nil || info.Mode().IsRegular() {
			t.Errorf("%s is a regular file now, or gone: %v", at, err)
		}
	}
	wantFiles(t, dir, "fifo")
}

func TestShowNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	first, err := hostfs.Replace(path, 0o600)
	must(t, err)
	second, err := hostfs.Replace(path, 0o600)
	must(t, err)
	must(t, first.ShowNew())
	if err := second.ShowNew(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("ShowNew() = %v at the path of a file, want ErrExist", err)
	}
	must(t, errors.Join(first.Close(), second.Close()))
	wantFiles(t, dir, "file")
}
