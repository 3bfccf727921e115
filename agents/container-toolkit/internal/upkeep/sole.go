package upkeep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// Lock is the file whose lock only one toolkit of a node has. NVIDIA's toolkit takes the
// same lock on the same file, so that the two do not undo each other's work. It is a flock,
// which whoever can read the file can take: the file is for root only, and a lock of another
// process than its owner does not outlast the owner.
type Lock struct {
	Path string
	file *os.File
	// ended is an owner that was seen to have ended, while the file was locked.
	ended int
}

// Acquire takes the lock, or returns why that is not possible now.
func (l *Lock) Acquire() error {
	// The run root is not created: without it, no other process would see the lock.
	if err := os.Mkdir(filepath.Dir(l.Path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("take the lock of the node's toolkit: %w: mount the host's folder, or set --toolkit-pid-file", err)
	}
	f, err := os.OpenFile(l.Path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l.create()
	}
	if err != nil {
		return fmt.Errorf("take the lock of the node's toolkit: %w", err)
	}
	err = errors.Join(f.Chmod(0o600), unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	if err == nil && !l.current(f) {
		err = unix.EWOULDBLOCK // its owner has removed it meanwhile
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = l.busy(f)
	}
	if err == nil {
		err = errors.Join(f.Truncate(0), write(f, strconv.Itoa(os.Getpid())+"\n"))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file = f
	return nil
}

// create creates the file, which nobody can lock before it is locked.
func (l *Lock) create() error {
	r, err := hostfs.Replace(l.Path, 0o600)
	if err != nil {
		return fmt.Errorf("take the lock of the node's toolkit: %w", err)
	}
	err = errors.Join(unix.Flock(int(r.Fd()), unix.LOCK_EX|unix.LOCK_NB), write(r.File, strconv.Itoa(os.Getpid())+"\n"))
	if err == nil {
		err = r.ShowNew()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("take the lock of the node's toolkit: %w", err), r.Close())
	}
	l.file = r.File
	return nil
}

// busy returns why the file cannot be locked. It removes one whose owner has ended: then the
// lock is that of a process which may only read it. A toolkit that takes the lock now has
// named itself by the second time.
func (l *Lock) busy(f *os.File) error {
	pid := owner(f)
	if pid == 0 || !seesAll() || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		by := ""
		if pid > 0 {
			by = fmt.Sprintf(" (process %d)", pid)
		}
		l.ended = 0
		return fmt.Errorf("another container toolkit runs on this node%s: remove it, or wait until it ends (it has locked %s)", by, l.Path)
	}
	if l.ended != pid {
		l.ended = pid
	} else if l.current(f) {
		if err := os.Remove(l.Path); err != nil {
			return fmt.Errorf("take the lock of the node's toolkit: %w", err)
		}
	}
	return fmt.Errorf("process %d, a container toolkit, has ended, and another process has locked %s (find it with lslocks): replacing the file", pid, l.Path)
}

// seesAll reports whether this process sees those of all PID namespaces: it is in the first
// one, which has the same number on all machines (PROC_PID_INIT_INO of Linux).
func seesAll() bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ns == "pid:[4026531836]"
}

func write(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// current reports whether f is the file at the path.
func (l *Lock) current(f *os.File) bool {
	there, err := os.Lstat(l.Path)
	if err != nil {
		return false
	}
	own, err := f.Stat()
	return err == nil && os.SameFile(there, own)
}

// owner returns the process that has the lock, as far as the file says so, or else 0.
func owner(f *os.File) int {
	data := make([]byte, 16)
	n, _ := f.ReadAt(data, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data[:n])))
	if err != nil {
		return 0
	}
	return max(pid, 0)
}

// Held reports whether this process has the lock.
func (l *Lock) Held() bool { return l.file != nil }

// Release removes the file, and gives the lock back.
func (l *Lock) Release() error {
	if !l.Held() {
		return nil
	}
	err := os.Remove(l.Path)
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
