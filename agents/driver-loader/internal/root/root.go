// Package root shows the driver of the store at the place where containers and agents look
// for it, such as /run/nvidia/driver, and tells the kernel where its firmware is.
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

// Driver is a driver root on the host, and where it is shown.
type Driver struct {
	// At is where the driver is shown, such as /run/nvidia/driver. It is the same path on the
	// host and here.
	At string
	// Proc and Sys are where this process sees the host's /proc and /sys.
	Proc, Sys string
}

// Shown reports whether the folder from is what is mounted.
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
		return false, fmt.Errorf("look at the driver root: %w", err)
	}
	return os.SameFile(want, is), nil
}

// Show mounts the folder from at the driver's place, read-only. What was mounted there goes;
// processes that use it keep it until they end.
func (d Driver) Show(from string) error {
	if err := d.visible(); err != nil {
		return err
	}
	if err := d.Hide(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.At, 0o755); err != nil {
		return fmt.Errorf("make the driver root's folder: %w", err)
	}
	if err := unix.Mount(from, d.At, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the driver root %s at %s: %w", from, d.At, err)
	}
	if err := unix.Mount("", d.At, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("make the driver root %s read-only: %w", d.At, err), d.Hide())
	}
	return nil
}

// Hide removes all that is mounted at the driver's place.
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

// maxMounts is how many mounts on top of each other are removed: other programs have left
// one for each of their starts.
const maxMounts = 100

// mounts counts what is mounted exactly at the driver's place.
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

// visible returns a Cause if a mount of this process is not seen on the host.
func (d Driver) visible() error {
	own, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return fmt.Errorf("find out the mount namespace: %w", err)
	}
	if host, err := os.Readlink(filepath.Join(d.Proc, "1/ns/mnt")); err == nil && host == own {
		return nil
	}
	// The longest mount point above the place decides.
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
		Code: cause.MountNotShared, Subject: d.At, Text: "a mount there would be seen in this container only, because " + at.Point + " is not shared with the host",
		Fix: "mount the host's " + filepath.Dir(d.At) + " with mountPropagation: Bidirectional",
	}
}

// firmware is the parameter with the first folder in which the kernel looks for firmware.
func (d Driver) firmware() string {
	return filepath.Join(d.Sys, "module/firmware_class/parameters/path")
}

// Firmware tells the kernel that firmware is in the driver root, unless it knows. It returns
// a Cause if another folder is set. A kernel without the parameter needs nothing.
func (d Driver) Firmware() error {
	wanted := filepath.Join(d.At, "lib/firmware")
	data, err := hostfs.ReadFile(d.firmware(), 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read where the kernel looks for firmware: %w", err)
	}
	switch is := strings.TrimSpace(string(data)); is {
	case wanted:
		return nil
	case "":
	default:
		return cause.New(cause.FirmwarePathTaken, d.firmware(), "it is "+is+", so that the kernel does not find the driver's firmware in "+wanted)
	}
	// A parameter of the kernel is written in one call, and cannot be replaced.
	if err := os.WriteFile(d.firmware(), []byte(wanted), 0o600); err != nil {
		return fmt.Errorf("tell the kernel where firmware is: %w", err)
	}
	return nil
}
