package contract

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
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
	// paths are those of files, or of folders that hold files. None has to be
	// there.
	paths []string
	// mask says which closes count: those of writers, or of readers; and what
	// else does.
	mask        uint32
	first, last time.Duration
}

func closesOf(mask uint32, paths ...string) closes {
	return closes{paths: paths, mask: mask, first: firstLook, last: lastLook}
}

// wait returns when done does. It asks at first, and after each close of a file
// at or in one of the paths, and after the removal of the path itself.
func (c closes) wait(ctx context.Context, done func() bool) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return c.failed(err)
	}
	// The runtime's poller wakes the read below, also for its deadline.
	in := os.NewFile(uintptr(fd), "inotify")
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	look := c.first
	buf := make([]byte, 64<<10)
	for {
		if err := c.watch(fd); err != nil {
			return c.failed(err)
		}
		if done() {
			return nil
		}
		if err := in.SetReadDeadline(time.Now().Add(look)); err != nil {
			return c.failed(err)
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
			return c.failed(err)
		}
	}
}

// watch is repeated before each question, because a path may hold another file,
// or be on another file system, by now.
func (c closes) watch(fd int) error {
	for _, path := range c.paths {
		_, err := unix.InotifyAddWatch(fd, path, c.mask|goneMask)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (c closes) failed(err error) error {
	return fmt.Errorf("watch %s: %w", strings.Join(c.paths, ", "), hostfs.InotifyError(err))
}
