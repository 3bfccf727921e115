// Package machine reads what the node is apart from its GPUs: the kernel, the
// operating system and the model of the machine.
package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// System is the kernel and the operating system of the node.
type System struct {
	// Kernel is its release, as uname -r prints it.
	Kernel string
	// ID, VersionID and OSTreeVersion are of os-release(5); "" where it has none.
	ID, VersionID, OSTreeVersion string
}

// ReadSystem reads the kernel's release, and os-release below root. An error is
// about os-release; the kernel is told all the same.
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
