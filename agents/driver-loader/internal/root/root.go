// Package root mounts a driver of the store where containers and agents expect the driver root, such as
// /run/nvidia/driver, and sets the kernel's firmware folder.
package root

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/mountinfo"
)

// Driver is the place of the driver root on the host.
type Driver struct {
	// At is the folder of the driver root, such as /run/nvidia/driver. The host and this process must
	// see it at the same path.
	At string
	// Proc and Sys are the host's /proc and /sys, as paths of this process.
	Proc, Sys string
}

// Shown reports whether from, a folder of the store, is mounted at the driver's place.
func (d Driver) Shown(from string) (bool, error) {
	want, err := os.Stat(from)
	if err != nil {
		return false, err
	}
	is, err := os.Stat(d.At)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check the mounted driver root: %w", err)
	}
	return os.SameFile(want, is), nil
}

// Show mounts from, a folder of the store, at the driver's place, read-only. It unmounts the previous
// folder. Processes with open files keep using the previous folder.
func (d Driver) Show(from string) error {
	if err := d.visible(); err != nil {
		return err
	}
	// If a file cannot be labeled, the previous folder stays for running pods.
	if err := d.label(from); err != nil {
		return err
	}
	if err := d.Hide(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.At, 0o755); err != nil {
		return fmt.Errorf("create the folder of the driver root: %w", err)
	}
	if err := attach(from, d.At); err != nil {
		return errors.Join(fmt.Errorf("mount the driver root %s at %s: %w", from, d.At, err), d.Hide())
	}
	return nil
}

// attach mounts a folder at another one, read-only. A mount that another program puts over it does not
// reach the original folder, because both mounts propagate separately.
func attach(from, at string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == nil {
		defer unix.Close(tree) //nolint:errcheck // the mount is at its place, or goes away
		private := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &private)
	}
	if errors.Is(err, unix.ENOSYS) {
		return bind(from, at)
	}
	if err == nil {
		err = unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return err
}

// bind mounts a folder at another one, read-only, on kernels before 5.12. If the store is on a shared mount,
// mounts over the driver root reach the store.
func bind(from, at string) error {
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// Hide removes all mounts at the driver's place.
func (d Driver) Hide() error {
	for range maxMounts {
		mounted, err := d.mounts()
		if err != nil || mounted == 0 {
			return err
		}
		if err := unix.Unmount(d.At, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount the driver root %s: %w", d.At, err)
		}
	}
	return fmt.Errorf("unmount the driver root %s: more than %d mounts are on it", d.At, maxMounts)
}

// maxMounts is the largest number of stacked mounts that Hide removes. Other programs have left one mount
// for each of their starts.
const maxMounts = 100

// mounts returns the number of mounts at the driver's place.
func (d Driver) mounts() (int, error) {
	n := 0
	all, err := mountinfo.Read(mountinfo.Self)
	for _, m := range all {
		if m.Point == d.At {
			n++
		}
	}
	return n, err
}

// visible returns a Cause if the host does not see a mount of this process.
func (d Driver) visible() error {
	own, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return fmt.Errorf("read the mount namespace: %w", err)
	}
	if host, err := os.Readlink(filepath.Join(d.Proc, "1/ns/mnt")); err == nil && host == own {
		return nil
	}
	// The mount with the longest path above the place decides.
	var at mountinfo.Mount
	all, err := mountinfo.Read(mountinfo.Self)
	for _, m := range all {
		if m.Point != d.At && len(m.Point) >= len(at.Point) && strings.HasPrefix(d.At+"/", strings.TrimSuffix(m.Point, "/")+"/") {
			at = m
		}
	}
	if err != nil || at.Shared {
		return err
	}
	return cause.Cause{
		Code: cause.MountNotShared, Subject: d.At, Text: "a mount there is visible only in this container, because " + at.Point + " is not shared with the host",
		Fix: "mount the host's " + filepath.Dir(d.At) + " into this container with mountPropagation: Bidirectional",
	}
}

// firmware returns the path of the kernel parameter for the firmware folder.
func (d Driver) firmware() string {
	return filepath.Join(d.Sys, "module/firmware_class/parameters/path")
}

// Firmware sets the kernel's firmware folder to the folder in the driver root. It returns a Cause if
// another folder is set. A kernel without the parameter is left as it is.
func (d Driver) Firmware() error {
	wanted := filepath.Join(d.At, "lib/firmware")
	data, err := hostfs.ReadFile(d.firmware(), 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the kernel's firmware path: %w", err)
	}
	switch is := strings.TrimSpace(string(data)); is {
	case wanted:
		return nil
	case "":
	default:
		return cause.New(cause.FirmwarePathTaken, d.firmware(), "it is "+is+", so the kernel does not find the driver's firmware in "+wanted)
	}
	// A kernel parameter is written in one call. It cannot be replaced by a renamed file.
	if err := os.WriteFile(d.firmware(), []byte(wanted), 0o600); err != nil {
		return fmt.Errorf("set the kernel's firmware path: %w", err)
	}
	return nil
}
