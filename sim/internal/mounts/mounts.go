// Package mounts shows the files of a simulated node in a procfs and a sysfs. It needs no C, because a
// hook of container runtimes is linked with it, and runs on nodes without glibc.
package mounts

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Paths below the folder of a node.
const (
	ProcDriver  = "proc/driver"
	ProcDevices = "proc/devices"
	PCIDevices  = "sys/bus/pci/devices"
)

// Mount says where a file or folder of a node is shown.
type Mount struct {
	// From is the path below the folder of the node, and To the mount point.
	From, To string
	// Flags are the attributes of the mount.
	Flags uint64
}

// Kernel returns what a kernel with the driver shows in procfs and sysfs. The sources keep their inodes
// while the node exists, because a container can have its own copy of a mount, which is not updated by
// later mounts.
func Kernel(proc, sys string) []Mount {
	const data = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	return []Mount{
		{ProcDriver, filepath.Join(proc, "driver"), data},
		{ProcDevices, filepath.Join(proc, "devices"), data},
		{PCIDevices, filepath.Join(sys, "bus/pci/devices"), data},
	}
}

// Copy returns a mount of source with other attributes, which is nowhere visible yet.
func Copy(source string, attr unix.MountAttr) (fd int, err error) {
	fd, err = unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", source, err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return -1, errors.Join(fmt.Errorf("set the flags of the mount of %s (Linux 5.12 is needed): %w", source, err), unix.Close(fd))
	}
	return fd, nil
}
