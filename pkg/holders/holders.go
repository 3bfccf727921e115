// Package holders finds the processes that have devices open or mapped, for example processes that
// prevent the unload of a kernel module or the reset of a GPU. It does not access a driver, because
// the driver may hang.
package holders

import "outrigger.dev/pkg/procowner"

// Devices is a set of character devices with one major number.
type Devices struct {
	Major uint32
	// Minors are the minor numbers. nil means all.
	Minors []uint32
}

// Holder is a process that holds devices.
type Holder struct {
	procowner.Process
	// Devices are the sorted paths of the devices, as the process sees them.
	Devices []string
}
