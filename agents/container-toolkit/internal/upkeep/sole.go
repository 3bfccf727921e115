package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/pace"
)

// soleRetry is how often the lock is tried while another process has it.
const soleRetry = time.Second

// Lock is the file whose lock only one toolkit of a node has. NVIDIA's toolkit takes the
// same lock on the same file, so that the two do not undo each other's work.
type Lock struct {
	Path string
	file *os.File
}

// Take waits until no other process has the lock. Until then, it calls waiting with the
// reason, whenever that changes.
func (l *Lock) Take(ctx context.Context, log *slog.Logger, waiting func(error)) error {
	logged := ""
	for {
		err := l.try()
		if err == nil {
			return nil
		}
		waiting(err)
		if err.Error() != logged {
			logged = err.Error()
			log.Warn("cannot begin, retrying", "every", soleRetry, "err", err)
		}
		if !pace.Pause(ctx, soleRetry) {
			return ctx.Err()
		}
	}
}

func (l *Lock) try() error {
	// The run root is not created: without it, no other process would see the lock.
	if err := os.Mkdir(filepath.Dir(l.Path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("take the lock of the node's toolkit: %w: mount the host's folder, or set --toolkit-pid-file", err)
	}
	f, err := os.OpenFile(l.Path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return fmt.Errorf("take the lock of the node's toolkit: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !l.current(f) {
		err = unix.EWOULDBLOCK // its owner has removed it meanwhile
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("another container toolkit runs on this node%s: remove it, or wait until it ends (it has locked %s)", owner(f), l.Path)
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

// owner returns " (process 42)", as far as the file says so.
func owner(f *os.File) string {
	data := make([]byte, 16)
	n, _ := f.ReadAt(data, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(data[:n]))); err == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

// Release removes the file, and gives the lock back.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	err := os.Remove(l.Path)
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
