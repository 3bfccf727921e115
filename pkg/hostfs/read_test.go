package hostfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

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
	assert.NilError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
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

// A command reads its input from a file, from standard input, or from the pipe of a shell's <(…).
// It does not wait for the writer of a named pipe.
func TestReadInput(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	assert.NilError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	defer r.Close()
	_, err = w.WriteString("text")
	assert.NilError(t, err)
	assert.NilError(t, w.Close())
	for name, tc := range map[string]struct {
		path  string
		limit int64
		err   string
	}{
		"a file":                 {path: filepath.Join(dir, "file"), limit: 4},
		"a file that is larger":  {path: filepath.Join(dir, "file"), limit: 3, err: "file: it is larger than 3 bytes"},
		"standard input":         {path: "-", limit: 4},
		"more standard input":    {path: "-", limit: 3, err: "read standard input: it is larger than 3 bytes"},
		"a process substitution": {path: fmt.Sprintf("/dev/fd/%d", r.Fd()), limit: 4},
		"a named pipe":           {path: filepath.Join(dir, "fifo"), limit: 4, err: "it is a named pipe, not a regular file"},
		"a device":               {path: "/dev/zero", limit: 4, err: "it is a device, not a regular file"},
		"nothing":                {path: filepath.Join(dir, "none"), limit: 4, err: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			err := inTime(t, func() (err error) {
				got, err = hostfs.ReadInput(tc.path, strings.NewReader("text"), tc.limit)
				return err
			})
			if tc.err == "" && (err != nil || string(got) != "text") {
				t.Errorf("ReadInput() = %q, %v", got, err)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("ReadInput() = %v, want %q", err, tc.err)
			}
		})
	}
}

// TestOnlyRegularFilesAreReplaced: a device node in its place would be gone for all
// programs of the node.
func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	assert.NilError(t, unix.Mkfifo(path, 0o600))
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
	assert.NilError(t, err)
	second, err := hostfs.Replace(path, 0o600)
	assert.NilError(t, err)
	assert.NilError(t, first.ShowNew())
	assert.ErrorIs(t, second.ShowNew(), fs.ErrExist)
	assert.NilError(t, errors.Join(first.Close(), second.Close()))
	wantFiles(t, dir, "file")
}
