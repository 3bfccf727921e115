package rootfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// writable returns a writable root if dir is mounted read-only. Otherwise, and if the kernel refuses,
// writable returns nil. crun mounts the root file system of a read-only container read-only before
// it runs hooks, and runc afterwards. The returned root is a private clone of the mounts. The
// container's mounts do not change, and read-only volumes are read-only in the clone. The clone
// needs Linux 5.12. In the host's mount namespace, writable returns nil, because the runtime may not
// be the program that made the file system read-only.
func writable(dir *os.File) *os.File {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil || st.Flags&unix.ST_RDONLY == 0 || onHost() {
		return nil
	}
	const all = unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	fd, err := unix.OpenTree(int(dir.Fd()), "", all|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil
	}
	clone := os.NewFile(uintptr(fd), dir.Name())
	private := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	changes := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if unix.MountSetattr(fd, "", all, &private) != nil || unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &changes) != nil {
		_ = clone.Close() // nothing was written to it
		return nil
	}
	return clone
}
