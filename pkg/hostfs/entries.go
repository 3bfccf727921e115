package hostfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// entryMask selects changes of the entries of a folder. It does not select writes: before Linux
	// 6.10 a write to any device node counts as a write in its folder, and a busy node writes to
	// /dev/null all the time.
	entryMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE
	// fileMask selects changes of the content and the mode of a file.
	fileMask = unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_ATTRIB
	// selfMask selects events after which another file or folder may be at the path.
	selfMask = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// WatchEntries calls changed from the caller's goroutine: once when the watch is active, and then
// whenever an entry of one of the folders appears, disappears or is replaced, or one of the files
// is written, replaced or removed. It returns nil when ctx ends.
//
// It is for callers that compare the state themselves and only need a wake-up. Unlike Watch, it
// does not follow a path that does not exist, unless the folder of that path is one of the paths.
// It does not wake for writes to the files in a folder. The kernel reports neither mounts nor
// changes on procfs and sysfs.
func WatchEntries(ctx context.Context, changed func(), paths ...string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return entriesError(paths, err)
	}
	// The runtime's poller wakes the read below, so that no thread waits in it.
	in := os.NewFile(uintptr(fd), "inotify")
	watches := map[int]bool{}
	defer func() { EndInotify(in, maps.Keys(watches)) }()
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4<<10)
	for moved := true; ; {
		if moved {
			if err := addEntries(fd, paths, watches); err != nil {
				return entriesError(paths, err)
			}
		}
		changed()
		n, err := in.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				return nil // the deadline is how ctx ends the read
			}
			return entriesError(paths, err)
		}
		moved = anyMoved(buf[:n])
	}
}

// anyMoved reports whether some events mean that another file or folder may be at one of the paths,
// or that events were lost.
func anyMoved(events []byte) bool {
	const mask = selfMask | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_Q_OVERFLOW
	for e := range inotifyEvents(events) {
		if e.Mask&mask != 0 {
			return true
		}
	}
	return false
}

// addEntries watches the paths that exist, and adds their descriptors to watches.
func addEntries(fd int, paths []string, watches map[int]bool) error {
	for _, p := range paths {
		info, err := os.Lstat(p)
		if err != nil {
			continue
		}
		mask := uint32(fileMask | selfMask | unix.IN_DONT_FOLLOW)
		if info.IsDir() {
			mask = entryMask | selfMask | unix.IN_DONT_FOLLOW | unix.IN_ONLYDIR
		}
		wd, err := unix.InotifyAddWatch(fd, p, mask)
		if err == nil {
			watches[wd] = true
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func entriesError(paths []string, err error) error {
	return fmt.Errorf("watch %s: %w", strings.Join(paths, ", "), InotifyError(err))
}
