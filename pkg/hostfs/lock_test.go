package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// TestReadersCannotTakeTheWriteLock: whoever may only read a file can lock it with flock,
// and can take read locks.
func TestReadersCannotTakeTheWriteLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	reader, err := os.Open(path)
	must(t, err)
	defer reader.Close()
	must(t, unix.Flock(int(reader.Fd()), unix.LOCK_EX))
	if err := hostfs.LockWrite(reader); !errors.Is(err, unix.EBADF) {
		t.Fatalf("LockWrite() = %v of a file that is open for reading, want EBADF", err)
	}
	locked := func() bool {
		t.Helper()
		locked, err := hostfs.WriteLocked(reader)
		must(t, err)
		return locked
	}
	if locked() {
		t.Error("a flock counts as write lock")
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, hostfs.LockWrite(writer))
	must(t, hostfs.LockWrite(writer))
	if !locked() {
		t.Error("a write lock is not seen")
	}
	if err := hostfs.LockRead(reader); !errors.Is(err, hostfs.ErrLocked) {
		t.Errorf("LockRead() = %v of a file with a write lock, want ErrLocked", err)
	}
	must(t, hostfs.Unlock(writer))
	must(t, hostfs.LockRead(reader))
	if err := hostfs.LockWrite(writer); !errors.Is(err, hostfs.ErrLocked) {
		t.Errorf("LockWrite() = %v of a file with a read lock, want ErrLocked", err)
	}
	must(t, writer.Close())
	if locked() {
		t.Error("the write lock outlives its file")
	}
}
