package hostfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

// TestReadersCannotTakeTheWriteLock: whoever may only read a file can lock it with flock,
// and can take read locks.
func TestReadersCannotTakeTheWriteLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	reader, err := os.Open(path)
	assert.NilError(t, err)
	defer reader.Close()
	assert.NilError(t, unix.Flock(int(reader.Fd()), unix.LOCK_EX))
	assert.ErrorIs(t, hostfs.LockWrite(reader), unix.EBADF)
	locked := func() bool {
		t.Helper()
		locked, err := hostfs.WriteLocked(reader)
		assert.NilError(t, err)
		return locked
	}
	if locked() {
		t.Error("a flock counts as write lock")
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	assert.NilError(t, err)
	assert.NilError(t, hostfs.LockWrite(writer))
	assert.NilError(t, hostfs.LockWrite(writer))
	if !locked() {
		t.Error("a write lock is not seen")
	}
	assert.ErrorIs(t, hostfs.LockRead(reader), hostfs.ErrLocked)
	assert.NilError(t, hostfs.Unlock(writer))
	assert.NilError(t, hostfs.LockRead(reader))
	assert.ErrorIs(t, hostfs.LockWrite(writer), hostfs.ErrLocked)
	assert.NilError(t, writer.Close())
	if locked() {
		t.Error("the write lock outlives its file")
	}
}
