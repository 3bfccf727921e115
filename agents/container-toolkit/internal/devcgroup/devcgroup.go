// Package devcgroup gives the processes of a container access to devices, in the
// cgroup that the container is in already.
//
// In version 1 of cgroups, a file of the cgroup takes rules. In version 2, programs
// that are attached to the cgroup decide, and all of them have to allow an access. So
// a program that is added cannot allow anything: this package replaces each program of
// the cgroup by one that allows the devices, and decides as the program did otherwise.
//
// systemd has a list of the devices of each of its units, and writes it to the cgroup
// again whenever it reloads: in version 2, it adds a program that it makes of the list. So
// the devices also have to be in the list. An OCI runtime puts only those there that are
// in the container's config.json.
package devcgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Device is a character device, by its numbers.
type Device struct{ Major, Minor uint32 }

// DeviceOf returns the device that a device node opens.
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
	// Version of the hierarchy, 1 or 2.
	Version int
	// Path of the cgroup's folder.
	Path string
	// Unit is the scope of systemd to which the cgroup belongs, or "".
	Unit string
}

// folders returns the folders of the cgroups to change, that of the unit first: some
// runtimes put the container into a cgroup below the one for which they set the devices.
func (c Cgroup) folders() []string {
	list := []string{c.Path}
	for dir := c.Path; c.Unit != "" && !isScope(dir); {
		dir = filepath.Dir(dir)
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

// Allow lets the processes in the cgroup read and write the devices. Whether they may
// make nodes of them stays as it is. It needs to be called once per container.
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
