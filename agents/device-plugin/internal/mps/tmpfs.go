package mps

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/device-plugin/internal/allocate"
)

// MountShm mounts the shared memory that daemons and clients use, unless it is mounted.
// Its limit is half of the node's memory, as for any tmpfs.
func MountShm(root string) error {
	path := allocate.MPSShm(root)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make folder for MPS shared memory: %w", err)
	}
	var here, above unix.Stat_t
	err := errors.Join(unix.Stat(path, &here), unix.Stat(filepath.Dir(path), &above))
	if err != nil {
		return fmt.Errorf("look for MPS shared memory: %w", err)
	}
	if here.Dev != above.Dev {
		return nil // it is mounted
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RELATIME
	if err := unix.Mount("shm", path, "tmpfs", flags, "mode=1777,size=50%"); err != nil {
		return fmt.Errorf("mount MPS shared memory at %s: %w (it needs a privileged container)", path, err)
	}
	return nil
}
