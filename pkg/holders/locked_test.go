package holders_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/procowner"
)

func TestLocking(t *testing.T) {
	for name, c := range map[string]struct {
		lock func(f *os.File) error
		want bool
	}{
		"a read lock":            {lock: hostfs.LockRead, want: true},
		"a write lock":           {lock: hostfs.LockWrite, want: true},
		"an open file":           {lock: func(*os.File) error { return nil }},
		"a released lock":        {lock: func(f *os.File) error { return errors.Join(hostfs.LockRead(f), hostfs.Unlock(f)) }},
		"a lock of another file": {lock: func(f *os.File) error { return hostfs.LockRead(open(t, f.Name()+".other")) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, filepath.Join(t.TempDir(), "nvml"))
			assert.NilError(t, c.lock(f))
			file, err := f.Stat()
			assert.NilError(t, err)
			found, _ := holders.Locking(t.Context(), procowner.Root{}, file) // other processes may belong to another user
			if got := len(found) == 1 && found[0].PID == os.Getpid(); got != c.want || len(found) > 1 {
				t.Errorf("%v lock the file, want this process: %t", found, c.want)
			}
		})
	}
	if _, err := holders.Locking(t.Context(), procowner.Root{Proc: "/nonexistent"}, info(t)); err == nil {
		t.Error("no error without procfs")
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func info(t *testing.T) fs.FileInfo {
	t.Helper()
	file, err := os.Stat(t.TempDir())
	assert.NilError(t, err)
	return file
}
