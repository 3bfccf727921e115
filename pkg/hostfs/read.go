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
	return readAll(f, path, info.Size(), limit)
}

// ReadInput returns the content of a file that a command reads once. The path "-" is stdin. Unlike
// ReadFile, it also reads a pipe that another process has opened, such as the process substitution of
// a shell. It rejects more than limit bytes.
func ReadInput(path string, stdin io.Reader, limit int64) ([]byte, error) {
	if path == "-" {
		return readAll(stdin, "standard input", 0, limit)
	}
	// A pipe without a name has a writer. A named pipe may have none.
	var in unix.Statfs_t
	if unix.Statfs(path, &in) != nil || in.Type != unix.PIPEFS_MAGIC {
		return ReadFile(path, limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path, 0, limit)
}

// readAll reads to the end of r. size is the expected number of bytes, or 0.
func readAll(r io.Reader, name string, size, limit int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(size, limit)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("read %s: it is larger than %s", name, formatSize(limit))
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

// formatSize returns a limit as a whole number of the largest unit that divides it.
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
