// Package devcgroup gives the processes of a container access to devices, in the existing cgroup of
// the container.
//
// With cgroup version 1, rules are written to a file of the cgroup. With version 2, programs that
// are attached to the cgroup decide, and an access needs the consent of every program. An
// additional program can therefore not allow a device. Instead, this package replaces each program
// by one that allows the devices, and otherwise decides as the replaced program.
//
// systemd has a device list for each of its units. Whenever it reloads, it applies the list to the
// cgroup again: in version 2, it attaches a program that it makes from the list. So the devices
// also have to be in this list. An OCI runtime only adds the devices of the container's
// config.json.
package devcgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Device is a character device, identified by its numbers.
type Device struct{ Major, Minor uint32 }

// DeviceOf returns the device of a device node.
func DeviceOf(node string) (Device, error) {
	var st unix.Stat_t
	if err := unix.Lstat(node, &st); err != nil {
		return Device{}, fmt.Errorf("read numbers of device node %s: %w", node, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFCHR {
		return Device{}, fmt.Errorf("read numbers of device node %s: it is not a character device", node)
	}
	return Device{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}, nil
}

// Cgroup is the cgroup that decides which devices a container may open.
type Cgroup struct {
	// Version is the version of the hierarchy, 1 or 2.
	Version int
	// Path is the path of the cgroup's folder.
	Path string
	// Unit is the systemd scope that the cgroup belongs to, or "".
	Unit string
}

// folders returns the folders of the cgroups to change, from the cgroup of the unit down. Some
// runtimes set the devices of one cgroup, and put the container into a cgroup below it.
func (c Cgroup) folders() []string {
	list := []string{c.Path}
	for dir := c.Path; c.Unit != "" && !isScope(dir); {
		dir = filepath.Dir(dir)
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

// Allow lets the processes in the cgroup read and write the devices. It does not change whether
// they may make device nodes. One call per container is enough.
func (c Cgroup) Allow(devices []Device) error {
	if len(devices) == 0 {
		return nil
	}
	for _, dir := range c.folders() {
		var err error
		if c.Version == 1 {
			err = allowByFile(filepath.Join(dir, "devices.allow"), devices)
		} else {
			err = allowByProgram(dir, devices)
		}
		if err != nil {
			return fmt.Errorf("allow devices in cgroup %s: %w", dir, err)
		}
	}
	return nil
}
