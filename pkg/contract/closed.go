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

// When a process dies, the kernel reports the close of a file to inotify a moment
// before it releases the file's locks. Each event is therefore followed by several
// checks: the first after firstCheck, each later one after twice the time, up to
// settledCheck. From then on, a check every lastCheck covers events that a file system
// does not deliver. While none of the paths exists, there are no events, and the
// longest time is lastCheckAbsent.
const (
	firstCheck      = time.Millisecond
	settledCheck    = time.Second
	lastCheck       = 30 * time.Second
	lastCheckAbsent = time.Second
	// These are for files of which the kernel reports all changes but mounts: an agent at
	// rest should rest, and one that starts has other things to do.
	beginFiles           = 64 * time.Millisecond
	lastCheckFiles       = 5 * time.Minute
	lastCheckFilesAbsent = 5 * time.Second
)

// eventBuffer is the size of the buffer for the events of one read. The kernel keeps the
// others for the next one.
const eventBuffer = 4 << 10

// goneMask are the events after which there may be another file at a path.
const goneMask = unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// closes waits for files to be closed. It uses inotify itself because fsnotify
// does not report closes.
type closes struct {
	// paths are files, or folders that hold files. They need not exist.
	paths []string
	// mask selects the events, for example closes by writers or by readers.
	mask uint32
	// names are those of the entries of the paths that matter; nil for all.
	names map[string]bool
	// begin is the time until the second check, with which rarely begins to watch. first and
	// last are the times between checks after an event, and absent is last while none of the
	// paths exists.
	begin, first, last, absent time.Duration
	// init opens an inotify instance.
	init func(flags int) (fd int, err error)
	log  *slog.Logger
}

func (d Dir) closesOf(mask uint32, paths ...string) closes {
	return closes{paths: paths, mask: mask, begin: firstCheck, first: firstCheck, last: lastCheck, absent: lastCheckAbsent, init: unix.InotifyInit1, log: d.log()}
}

// rarely returns c with rare checks without an event of one of these files, or of a folder
// on the way to it. Agents write their files at their starts: nobody wakes for those of others.
func (c closes) rarely(files ...string) closes {
	c.begin, c.last, c.absent = beginFiles, lastCheckFiles, lastCheckFilesAbsent
	c.names = map[string]bool{}
	for _, file := range files {
		for name := range strings.SplitSeq(file, "/") {
			c.names[name] = true
		}
	}
	return c
}

// wait calls done at the start, after each event on one of the paths, and after a path
// itself is removed. It returns nil when done returns true, and the error of ctx when that
// ends. It watches from the first call on, or with rarely from the second one, a moment later.
//
// While it cannot watch, for example because all inotify instances of the user are in use,
// it logs why and calls done every second instead. It tries again to watch each time.
func (c closes) wait(ctx context.Context, done func() bool) error {
	if c.begin > firstCheck {
		if done() {
			return nil
		}
		if !pace.Pause(ctx, c.begin) {
			return ctx.Err()
		}
	}
	logged := false
	for {
		err := c.watch(ctx, done)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !logged {
			logged = true
			c.log.Warn("cannot watch files, polling", "every", lastCheckAbsent, "err", err)
		}
		if done() {
			return nil
		}
		if !pace.Pause(ctx, lastCheckAbsent) {
			return ctx.Err()
		}
	}
}

// watch is wait, but returns an error if it cannot watch.
func (c closes) watch(ctx context.Context, done func() bool) error {
	fd, err := c.init(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return c.failed(err)
	}
	// The runtime's poller wakes the read below, also for its deadline.
	in := os.NewFile(uintptr(fd), "inotify")
	watches := map[int]bool{}
	defer func() { hostfs.EndInotify(in, maps.Keys(watches)) }()
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	next := max(c.begin, c.first)
	buf := make([]byte, eventBuffer)
	for {
		last := c.last
		watching, err := c.add(fd, watches)
		if err != nil {
			return c.failed(err)
		}
		if !watching {
			last = min(last, c.absent)
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
		switch err := c.next(ctx, in, buf); {
		case err == nil:
			next = c.first
		case errors.Is(err, os.ErrDeadlineExceeded):
			next = min(2*next, 2*settledCheck)
		default:
			return c.failed(err)
		}
	}
}

// next waits for an event that matters. Events come in bursts: one check suffices for those
// that come within a moment.
func (c closes) next(ctx context.Context, in *os.File, buf []byte) error {
	for {
		n, err := in.Read(buf)
		if err != nil {
			return err
		}
		pace.Pause(ctx, min(c.first, firstCheck))
		if c.matters(buf[:n]) {
			return nil
		}
	}
}

// matters reports whether one of the events is of a path itself, or of an entry in names, or
// whether events were lost.
func (c closes) matters(events []byte) bool {
	if c.names == nil {
		return true
	}
	for e := range hostfs.InotifyEvents(events) {
		if e.Name == "" || c.names[e.Name] {
			return true
		}
	}
	return false
}

// pause returns the time until the next check, which is next unless that is long after the
// last event.
func pause(next, last time.Duration) time.Duration {
	if next > settledCheck {
		return pace.Aligned(last)
	}
	return min(next, last)
}

// add watches the paths that exist, and reports whether there are any. It adds their
// descriptors to watches. watch calls it before each check, because there may be another
// file, or another file system, at a path by then.
func (c closes) add(fd int, watches map[int]bool) (watching bool, err error) {
	for _, path := range c.paths {
		wd, err := unix.InotifyAddWatch(fd, path, c.mask|goneMask)
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

func (c closes) failed(err error) error {
	return fmt.Errorf("watch %s: %w", strings.Join(c.paths, ", "), hostfs.InotifyError(err))
}
