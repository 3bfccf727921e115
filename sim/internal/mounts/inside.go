package mounts

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Inside mounts the node at root in the procfs and the sysfs of a container, read-only. Call it in
// the mount namespace of the container, before its root file system, which is mounted at rootfs,
// becomes the root. It leaves out a mount point that is no file of procfs or sysfs: the container has
// another folder there, such as the folder of the machine, which shows the node already.
func Inside(root, rootfs string) (err error) {
	dir, err := unix.Open(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s, the root of the container: %w", rootfs, err)
	}
	defer func() { err = errors.Join(err, unix.Close(dir)) }()
	for _, m := range Kernel("proc", "sys") {
		if err := show(dir, filepath.Join(root, m.From), m); err != nil {
			return err
		}
	}
	return nil
}

func show(dir int, source string, m Mount) (err error) {
	// The image and the volumes of the container are not trusted: a link could lead out of its root.
	at, err := unix.Openat2(dir, m.To, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil
	case err != nil:
		return fmt.Errorf("open /%s of the container: %w", m.To, err)
	}
	defer func() { err = errors.Join(err, unix.Close(at)) }()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(at, &fs); err != nil {
		return fmt.Errorf("find the file system of /%s of the container: %w", m.To, err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC && fs.Type != unix.SYSFS_MAGIC {
		return nil
	}
	// A private mount: what a container mounts in it does not reach the machine.
	fd, err := Copy(source, unix.MountAttr{Attr_set: m.Flags | unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount /%s of the container: %w", m.To, err)
	}
	return nil
}
