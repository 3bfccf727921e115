package hostfs

import (
	"bytes"
	"encoding/binary"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// inotifyEvent is an event that a read of an inotify instance returns (inotify(7)).
type inotifyEvent struct {
	Mask uint32
	// Name is the name of the entry of a watched folder. It is empty for the watched file or folder
	// itself, and if events were lost.
	Name string
}

// inotifyEvents returns the events in data, the result of a read of an inotify instance.
func inotifyEvents(data []byte) iter.Seq[inotifyEvent] {
	return func(yield func(inotifyEvent) bool) {
		for len(data) >= unix.SizeofInotifyEvent {
			size := min(unix.SizeofInotifyEvent+uint64(binary.NativeEndian.Uint32(data[12:])), uint64(len(data)))
			name := bytes.TrimRight(data[unix.SizeofInotifyEvent:size], "\x00")
			if !yield(inotifyEvent{Mask: binary.NativeEndian.Uint32(data[4:]), Name: string(name)}) {
				return
			}
			data = data[size:]
		}
	}
}

// closeAfter is the time between the end of the watches of an inotify instance and its close. The
// kernel needs 10 to 60 ms to end watches.
const closeAfter = 100 * time.Millisecond

// EndInotify ends the watches of an inotify instance, and closes it a moment later. It does not
// block.
//
// A close blocks a processor of Go's scheduler until the kernel has ended the watches of all
// instances. A process that ends would wait for several closes in turn, and for the scheduler to
// notice that no processor is free. With the delay, the process ends before the close.
func EndInotify(in *os.File, watches iter.Seq[int]) {
	if conn, err := in.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			for wd := range watches {
				_, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) // the call fails if the file is gone
			}
		})
	}
	time.AfterFunc(closeAfter, func() { _ = in.Close() })
}
