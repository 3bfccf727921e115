// Package machine reads the properties of a node other than its GPUs: the kernel,
// the operating system and the model of the machine.
package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// System is the kernel and the operating system of the node.
type System struct {
	// Kernel is the kernel release, as uname -r prints it.
	Kernel string
	// ID, VersionID and OSTreeVersion are variables of os-release(5), "" if it lacks
	// them.
	ID, VersionID, OSTreeVersion string
}

// ReadSystem reads the kernel release, and os-release below root. If it cannot read
// os-release, it returns the kernel release with the error.
func ReadSystem(root string) (System, error) {
	var s System
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return s, fmt.Errorf("read kernel release: %w", err)
	}
	s.Kernel = unix.ByteSliceToString(name.Release[:])
	data, err := readOSRelease(root)
	if err != nil {
		return s, err
	}
	values := parseOSRelease(data)
	s.ID, s.VersionID, s.OSTreeVersion = values["ID"], values["VERSION_ID"], values["OSTREE_VERSION"]
	return s, nil
}
