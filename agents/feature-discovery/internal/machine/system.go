// Package machine reads what the node is apart from its GPUs: the kernel, the
// operating system and the model of the machine.
package machine

import "errors"

// System is the kernel and the operating system of the node.
type System struct {
	// Kernel is its release, as uname -r prints it.
	Kernel string
	// ID, VersionID and OSTreeVersion are of os-release(5); "" where it has none.
	ID, VersionID, OSTreeVersion string
}

// ReadSystem reads the kernel's release, and os-release below root.
func ReadSystem(_ string) (System, error) {
	return System{}, errors.New("read os-release: not yet")
}
