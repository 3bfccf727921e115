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

// Lock is the file that only one toolkit of a node can lock. NVIDIA's toolkit locks the same
// file, so that the two do not revert each other's changes. The lock is a flock, which every
// process that can read the file can take. Therefore only root can read the file, and busy
// replaces the file if its owner has ended while another process holds the lock.
type Lock struct {
	Path string
	file *os.File
	// ended is the process ID of an owner that has ended although the file was still locked.
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
	if err == nil && !hostfs.IsAt(f, l.Path) {
		err = unix.EWOULDBLOCK // the owner has just removed the file
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

// create creates the file. The file is locked before other processes can see it.
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

// busy returns why the file cannot be locked. If the owner has ended, the lock belongs to a
// process that has only read access. Then the second call of busy removes the file. It waits
// for the second call because a toolkit that has just taken the lock writes its ID afterwards.
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
	} else if hostfs.IsAt(f, l.Path) {
		if err := os.Remove(l.Path); err != nil {
			return fmt.Errorf("take the lock of the node's toolkit: %w", err)
		}
	}
	return fmt.Errorf("process %d, a container toolkit, has ended, and another process has locked %s (find it with lslocks): replacing the file", pid, l.Path)
}

// seesAll reports whether this process sees the processes of all PID namespaces. It does in the
// initial namespace, which has the same number on all machines (PROC_PID_INIT_INO of Linux).
func seesAll() bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ns == "pid:[4026531836]"
}

func write(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// owner returns the ID of the process in the file, or 0 if the file has none.
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

// Release removes the file, and releases the lock.
func (l *Lock) Release() error {
	if !l.Held() {
		return nil
	}
	err := os.Remove(l.Path)
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
