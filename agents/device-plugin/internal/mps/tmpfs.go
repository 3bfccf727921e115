package mps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The limits of the storage for the clients and the daemon of one resource, in bytes and files.
// Containers have 64 MiB of shared memory also without MPS.
const (
	pipeBytes, pipeFiles = 1 << 20, 1 << 10
	logBytes, logFiles   = 16 << 20, 1 << 10
	shmBytes, shmFiles   = 64 << 20, 1 << 12 // for each client
)

// tmpfs is a folder of a daemon with a separate file system, so that a container that fills the
// folder does not fill /run of the host.
type tmpfs struct {
	path  string
	mode  fs.FileMode
	bytes int
	files int
}

// filesystems returns the file systems of a daemon with this number of clients.
func (d dirs) filesystems(clients int) []tmpfs {
	n := max(clients, 1)
	return []tmpfs{
		{d.pipe, 0o755, pipeBytes, pipeFiles},
		{d.log, 0o755, logBytes, logFiles},
		{d.shm, 0o777 | unix.S_ISVTX, shmBytes * n, shmFiles * n},
	}
}

// mount mounts the file system. If it is mounted already, mount only changes its limits, so that
// client containers keep their mount and can reach the next daemon.
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
		// Clients use more than the new limit. The old limit stays.
		return nil
	}
	return mountError(t.path, err)
}

// isMount reports whether path and its parent are on different file systems.
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
