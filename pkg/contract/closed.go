package contract

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel tells inotify of the close of a file a moment before it drops the
// file's locks, when a process dies. So a close is followed by a few looks, the
// first after firstLook, each after twice the time, up to lastLook, which then
// is a backstop for events that a file system does not deliver.
const (
	firstLook = time.Millisecond
	lastLook  = time.Second
)

// goneMask are the events after which a file at a path is another one.
const goneMask = unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// closes waits for files to be closed. fsnotify does not tell of that, so this
// asks inotify itself.
type closes struct {
	path string
	// mask says which closes count: those of writers, or of readers.
	mask        uint32
	first, last time.Duration
}

func closesOf(path string, mask uint32) closes {
	return closes{path: path, mask: mask, first: firstLook, last: lastLook}
}

// wait returns when done does. It asks at first, and after each close of the
// file at the path, and after its removal.
func (c closes) wait(ctx context.Context, done func() bool) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch %s: %w", c.path, err)
	}
	// The runtime's poller wakes the read below, also for its deadline.
	in := os.NewFile(uintptr(fd), "inotify")
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	look := c.first
	buf := make([]byte, 64<<10)
	for {
		// Each time, because the path may hold another file by now.
		if _, err := unix.InotifyAddWatch(fd, c.path, c.mask|goneMask); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", c.path, err)
		}
		if done() {
			return nil
		}
		if err := in.SetReadDeadline(time.Now().Add(look)); err != nil {
			return fmt.Errorf("watch %s: %w", c.path, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, err := in.Read(buf)
		switch {
		case err == nil:
			look = c.first
		case errors.Is(err, os.ErrDeadlineExceeded):
			look = min(2*look, c.last)
		default:
			return fmt.Errorf("watch %s: %w", c.path, err)
		}
	}
}
