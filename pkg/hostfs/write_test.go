package hostfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

func TestWriteFile(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "spec.json")
	for _, data := range []string{"one", "a longer two", ""} {
		assert.NilError(t, hostfs.WriteFile(path, []byte(data), 0o644))
		got, err := os.ReadFile(path)
		assert.NilError(t, err)
		if string(got) != data {
			t.Errorf("want %q, got %q", data, got)
		}
	}
	fi, err := os.Stat(path)
	assert.NilError(t, err)
	if fi.Mode().Perm() != 0o644 {
		t.Errorf("the umask must not count: want 0644, got %o", fi.Mode().Perm())
	}
	wantFiles(t, filepath.Dir(path), "spec.json")
}

func TestWriteFileErrors(t *testing.T) {
	cases := map[string]struct {
		path   string
		before func(t *testing.T, dir string)
		want   error
		fix    string
		files  []string
	}{
		"the folder is missing": {
			path: "none/file", want: fs.ErrNotExist, fix: "create or mount the folder", files: nil,
		},
		"a file stands in the folder's place": {
			path: "file/file", before: put("file"), want: syscall.ENOTDIR, fix: "must be a folder", files: []string{"file"},
		},
		"a folder stands in the file's place": {
			path: "dir", before: mkdir("dir/sub"), want: syscall.EEXIST, fix: "remove the folder", files: []string{"dir"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.before != nil {
				tc.before(t, dir)
			}
			path := filepath.Join(dir, tc.path)
			err := hostfs.WriteFile(path, []byte("x"), 0o644)
			assert.ErrorIs(t, err, tc.want)
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.fix) {
				t.Errorf("error must name %s and say %q: %v", path, tc.fix, err)
			}
			wantFiles(t, dir, tc.files...)
		})
	}
}

// TestWriteFileReadOnly needs a folder that even root may not write in.
func TestWriteFileReadOnly(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	put("file")(t, dir)
	assert.NilError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""), "remount")
	err := hostfs.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount "+dir+" read-write") {
		t.Errorf("want EROFS and the fix, got %v", err)
	}
	again := hostfs.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
	if diff := cmp.Diff(err.Error(), again.Error()); diff != "" {
		t.Errorf("the same error has another text each time (-first +second):\n%s", diff)
	}
}

func TestWriteFileOnFullDisk(t *testing.T) {
	dir := tmpfs(t, "size=64k")
	path := filepath.Join(dir, "spec.json")
	assert.NilError(t, hostfs.WriteFile(path, []byte("old"), 0o644))
	err := hostfs.WriteFile(path, make([]byte, 1<<20), 0o644)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	for _, part := range []string{path, "free space"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error must name %q: %v", part, err)
		}
	}
	wantFiles(t, dir, "spec.json")
	got, err := os.ReadFile(path)
	assert.NilError(t, err)
	if string(got) != "old" {
		t.Errorf("the old file must stay: got %d bytes", len(got))
	}
}

func TestWriteIfChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, tc := range []struct {
		why  string
		data string
		mode fs.FileMode
		want bool
	}{
		{"no file yet", "one", 0o644, true},
		{"same content", "one", 0o644, false},
		{"other content of the same size", "two", 0o644, true},
		{"other size", "three", 0o644, true},
		{"other mode", "three", 0o600, true},
	} {
		got, err := hostfs.WriteIfChanged(path, []byte(tc.data), tc.mode)
		assert.NilError(t, err)
		if got != tc.want {
			t.Errorf("%s: want written %t, got %t", tc.why, tc.want, got)
		}
	}
	if _, err := hostfs.WriteIfChanged(path+"/no", nil, 0o644); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("want ENOTDIR, got %v", err)
	}
}

// TestReplacement: an error between Replace and Commit leaves the old file.
func TestReplacement(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	assert.NilError(t, hostfs.WriteFile(path, []byte("old"), 0o644))
	r, err := hostfs.Replace(path, 0o644)
	assert.NilError(t, err)
	_, err = r.WriteString("half of the n")
	assert.NilError(t, err)
	assert.NilError(t, r.Close())
	wantFiles(t, dir, "file")
	got, err := os.ReadFile(path)
	assert.NilError(t, err)
	if string(got) != "old" {
		t.Errorf("want the old content, got %q", got)
	}

	r, err = hostfs.Replace(path, 0o644)
	assert.NilError(t, err)
	// What the disk rejects, here because the file is closed already.
	assert.NilError(t, r.File.Close())
	if err := r.Commit(); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), path) {
		t.Errorf("want an error that names %s, got %v", path, err)
	}
	_ = r.Close()
	wantFiles(t, dir, "file")
}

// TestShow: the file takes the old one's place whole, and stays open.
func TestShow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	assert.NilError(t, hostfs.WriteFile(path, []byte("old"), 0o644))
	r, err := hostfs.Replace(path, 0o600)
	assert.NilError(t, err)
	_, err = r.WriteString("new")
	assert.NilError(t, err)
	assert.NilError(t, r.Show())
	_, err = r.WriteString("er")
	assert.NilError(t, err)
	assert.NilError(t, r.Close())
	wantFiles(t, dir, "file")
	if got, err := os.ReadFile(path); err != nil || string(got) != "newer" {
		t.Errorf("the file has %q, %v", got, err)
	}

	r, err = hostfs.Replace(path, 0o644)
	assert.NilError(t, err)
	assert.NilError(t, os.Remove(path))
	assert.NilError(t, os.Mkdir(path, 0o755))
	if err := r.Show(); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("want an error that says what to remove, got %v", err)
	}
	assert.NilError(t, r.Close())
	wantFiles(t, dir, "file")
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files in %s (-want +got):\n%s", dir, diff)
	}
}

// tmpfs mounts a file system of its own for the test.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
