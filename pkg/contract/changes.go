package contract

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

// When a process dies, the kernel reports the close of a file to inotify a moment before it
// releases the file's locks. Each event is therefore followed by several checks: the first after
// firstCheck, each later one after twice the time, up to settledCheck. After that, a check every
// lastCheck covers events that a file system does not deliver. If no folder exists,
// the interval is lastCheckAbsent, because there are no events.
const (
	firstCheck      = time.Millisecond
	settledCheck    = time.Second
	lastCheck       = 5 * time.Second
	lastCheckAbsent = time.Second
)

// factMask has the events after which a fact may have changed: files and folders that are created,
// deleted or moved, and closes by writers, including a writer that dies. Reads and writes in
// progress cause no such event, because the files are written atomically. The last three events
// mean that another folder may be at a path.
const factMask = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// changes waits for changes of the files in folders. It uses inotify itself because fsnotify
// does not report closes.
type changes struct {
	// folders need not exist.
	folders []string
	// first is the time until the check after an event. last is the longest time between checks.
	first, last time.Duration
	// init opens an inotify instance.
	init func(flags int) (fd int, err error)
	log  *slog.Logger
}

// changes returns a value that waits for changes of facts in these folders and in the run root.
func (d Dir) changes(folders ...string) changes {
	return changes{
		folders: append([]string{d.Root}, folders...),
		first:   firstCheck, last: lastCheck, init: unix.InotifyInit1, log: d.log(),
	}
}

// wait calls done at the start, after each event in one of the folders, and after the removal of a
// folder. It returns nil when done returns true, and the error of ctx when ctx ends.
//
// If it cannot watch, for example because all inotify instances of the user are in use, it logs why
// and calls done every second instead. It tries again to watch each time.
func (c changes) wait(ctx context.Context, done func() bool) error {
	return hostfs.Rewatch(ctx, c.log, lastCheckAbsent, func(func()) error {
		err := c.watch(ctx, done)
		if err != nil && ctx.Err() == nil && done() {
			return nil
		}
		return err
	})
}

// watch is wait without polling: it returns an error if it cannot watch.
func (c changes) watch(ctx context.Context, done func() bool) error {
	fd, err := c.init(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return c.failed(err)
	}
	// Go's runtime polls the descriptor, so the read below ends at once when its deadline is set.
	in := os.NewFile(uintptr(fd), "inotify")
	watches := map[int]bool{}
	defer func() { hostfs.EndInotify(in, maps.Keys(watches)) }()
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	next := c.first
	buf := make([]byte, 4<<10)
	for {
		last := c.last
		watching, err := c.add(fd, watches)
		if err != nil {
			return c.failed(err)
		}
		if !watching {
			last = min(last, lastCheckAbsent)
		}
		if done() {
			return nil
		}
		if err := in.SetReadDeadline(time.Now().Add(pause(next, last))); err != nil {
			return c.failed(err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch _, err := in.Read(buf); {
		case err == nil:
			next = c.first
			// Events come in bursts. One check is enough for a burst.
			pace.Pause(ctx, min(c.first, firstCheck))
		case errors.Is(err, os.ErrDeadlineExceeded):
			next = min(2*next, 2*settledCheck)
		default:
			return c.failed(err)
		}
	}
}

// pause returns the time until the next check: next, or last if the last event was long ago.
func pause(next, last time.Duration) time.Duration {
	if next > settledCheck {
		return last
	}
	return min(next, last)
}

// add watches the folders that exist, and reports whether any exists. It adds their descriptors to
// watches. watch calls it before each check, because another folder, or another file system, may be
// at a path by then.
func (c changes) add(fd int, watches map[int]bool) (watching bool, err error) {
	for _, folder := range c.folders {
		wd, err := unix.InotifyAddWatch(fd, folder, factMask)
		switch {
		case err == nil:
			watching = true
			watches[wd] = true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return false, err
		}
	}
	return watching, nil
}

func (c changes) failed(err error) error {
	return fmt.Errorf("watch %s: %w", strings.Join(c.folders, ", "), hostfs.InotifyError(err))
}
