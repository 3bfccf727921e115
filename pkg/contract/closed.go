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

// waitClosed returns when done does. It asks at first, and after each close of
// the file at path that mask names, and after its removal. fsnotify does not
// tell of closes, so this asks inotify itself.
func waitClosed(ctx context.Context, path string, mask uint32, done func() bool) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	// The runtime's poller wakes the read below, also for its deadline.
	in := os.NewFile(uintptr(fd), "inotify")
	defer in.Close() //nolint:errcheck // nothing was written
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	look := firstLook
	buf := make([]byte, 64<<10)
	for {
		// Each time, because the path may hold another file by now.
		if _, err := unix.InotifyAddWatch(fd, path, mask|goneMask); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if done() {
			return nil
		}
		if err := in.SetReadDeadline(time.Now().Add(look)); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, err := in.Read(buf)
		switch {
		case err == nil:
			look = firstLook
		case errors.Is(err, os.ErrDeadlineExceeded):
			look = min(2*look, lastLook)
		default:
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
}
