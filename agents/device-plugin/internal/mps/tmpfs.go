package mps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The limits of what the clients and the daemon of one resource can store, in bytes and in
// files. A container has 64 MiB of shared memory without MPS too.
const (
	pipeBytes, pipeFiles = 1 << 20, 1 << 10
	logBytes, logFiles   = 16 << 20, 1 << 10
	shmBytes, shmFiles   = 64 << 20, 1 << 12 // for each client
)

// tmpfs is a folder of a daemon that is a file system of its own. Without it, a container
// that fills the folder would fill /run of the host.
type tmpfs struct {
	path  string
	mode  fs.FileMode
	bytes int
	files int
}

// filesystems returns the filesystems of a daemon with this number of clients.
func (d dirs) filesystems(clients int) []tmpfs {
	n := max(clients, 1)
	return []tmpfs{
		{d.pipe, 0o755, pipeBytes, pipeFiles},
		{d.log, 0o755, logBytes, logFiles},
		{d.shm, 0o777 | unix.S_ISVTX, shmBytes * n, shmFiles * n},
	}
}

// mount mounts the file system, or changes the limits of the one that is mounted: a
// container that is a client keeps its mount, so that it reaches the next daemon.
func (t tmpfs) mount() error {
	if err := os.MkdirAll(t.path, 0o755); err != nil {
		return fmt.Errorf("create folder of MPS daemon: %w", err)
	}
	mounted, err := isMount(t.path)
	if err != nil {
		return fmt.Errorf("find mount of MPS daemon: %w", err)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RELATIME)
	if mounted {
		flags |= unix.MS_REMOUNT
	}
	err = unix.Mount("mps", t.path, "tmpfs", flags, fmt.Sprintf("mode=%o,size=%d,nr_inodes=%d", t.mode, t.bytes, t.files))
	if mounted && errors.Is(err, unix.EINVAL) {
		// Clients use more than the new limit, and the old one stays.
		return nil
	}
	return mountError(t.path, err)
}

// isMount reports whether another file system than that of its parent is mounted at path.
func isMount(path string) (bool, error) {
	var here, above unix.Stat_t
	if err := errors.Join(unix.Stat(path, &here), unix.Stat(filepath.Dir(path), &above)); err != nil {
		return false, err
	}
	return here.Dev != above.Dev, nil
}

func mountError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("mount %s: %w: MPS shares no GPU without it; run mps-control-daemon in a privileged container", path, err)
	default:
		return fmt.Errorf("mount %s: %w", path, err)
	}
}
