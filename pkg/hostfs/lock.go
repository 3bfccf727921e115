package hostfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is returned by LockWrite and LockRead while another process has a lock that
// excludes the requested one.
var ErrLocked = errors.New("another process has locked the file")

// LockWrite takes the write lock of a file that is open for writing, until the file is closed. It
// does not block. Unlike flock(2), only a process that may write the file can take this lock. A
// reader cannot block the file with it. The lock is an open file description lock (fcntl(2)).
func LockWrite(f *os.File) error { return setLock(f, unix.F_WRLCK) }

// LockRead takes a read lock of a file that is open for reading, until the file is closed. It does
// not block. It excludes write locks. A process that may only read the file cannot prevent the
// lock.
func LockRead(f *os.File) error { return setLock(f, unix.F_RDLCK) }

// Unlock releases the locks of LockWrite and LockRead.
func Unlock(f *os.File) error { return setLock(f, unix.F_UNLCK) }

// WriteLocked reports whether another open file has the write lock.
func WriteLocked(f *os.File) (bool, error) {
	lock := wholeFile(unix.F_RDLCK)
	if err := control(f, unix.F_OFD_GETLK, lock); err != nil {
		return false, fmt.Errorf("find the lock of %s: %w", f.Name(), err)
	}
	return lock.Type == unix.F_WRLCK, nil
}

func setLock(f *os.File, kind int16) error {
	err := control(f, unix.F_OFD_SETLK, wholeFile(kind))
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

func wholeFile(kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart}
}

// control calls fcntl on the descriptor of f, which stays in the runtime's poller.
func control(f *os.File, cmd int, lock *unix.Flock_t) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := conn.Control(func(fd uintptr) { result = unix.FcntlFlock(fd, cmd, lock) }); err != nil {
		return err
	}
	return result
}

// IsAt reports whether an open file is the file at path, so that a lock of it counts.
func IsAt(f *os.File, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	own, err := f.Stat()
	return err == nil && os.SameFile(own, there)
}
