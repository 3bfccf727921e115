package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// OpenLog opens a file to append to it. It creates the file with the mode if necessary. It rejects
// a named pipe without a reader, because an open would wait for a reader. flags are additional
// flags of open(2), for example O_NOFOLLOW. For /dev/stdout and /dev/stderr it returns a copy of
// the stream of this process, because these links cannot be opened if the stream is a socket.
func OpenLog(path string, mode fs.FileMode, flags int) (*os.File, error) {
	if stream := map[string]int{"/dev/stdout": unix.Stdout, "/dev/stderr": unix.Stderr}[path]; stream != 0 {
		fd, err := unix.FcntlInt(uintptr(stream), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOCTTY|flags, mode)
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("open %s: %w: no process reads it: use a regular file", path, cause(err))
	}
	return f, err
}
