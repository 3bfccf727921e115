package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for reading. It rejects everything else: a named pipe would block until
// a process writes to it, and a device may never end. It follows symbolic links.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, cause(err))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	// Another file may be at the path by now.
	if info, err = f.Stat(); err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, cause(err)), f.Close())
	}
	return f, nil
}

// ReadFile returns the content of a regular file. It rejects a file of more than limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// The size is only a hint: files of /proc have none, and other files can grow.
	var b bytes.Buffer
	b.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("read %s: it is larger than %s", path, formatSize(limit))
	}
	return b.Bytes(), nil
}

// checkRegular returns an error with the kind of the file, unless it is a regular file.
func checkRegular(info fs.FileInfo) error {
	kind := "special file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	}
	return fmt.Errorf("it is a %s, not a regular file: use another path, or move it away", kind)
}

// formatSize returns a limit in the largest unit without a remainder.
func formatSize(limit int64) string {
	switch {
	case limit >= 1<<20 && limit%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", limit>>20)
	case limit >= 1<<10 && limit%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", limit>>10)
	default:
		return fmt.Sprintf("%d bytes", limit)
	}
}
