package rootfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Freeze makes a mount read-only after it has been filled.
func (m *Mount) Freeze() error {
	err := unix.MountSetattr(int(m.file.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if errors.Is(err, unix.ENOSYS) {
		m.later |= unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the mount of %s read-only: %w", m.file.Name(), err)
	}
	return nil
}
