package rootfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// writable returns a root through which the files of a root can be changed that is mounted
// read-only, and nil for another one or where that cannot be. crun mounts the root file
// system of a read-only container so before it runs hooks; runc does so after them. The
// result is a clone of the mounts that nobody else sees: those of the container stay as
// they are, and volumes that are read-only are so in the clone. It needs Linux 5.12. In
// the host's mount namespace it is not made: there, somebody else than the runtime may
// have decided that the file system is read-only.
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
