// Package holders finds the processes that have devices open or mapped, such as those that keep a
// kernel module from being unloaded or a GPU from being reset. It asks no driver, which may hang.
package holders

import "outrigger.dev/pkg/procowner"

// Devices are character devices with one major number.
type Devices struct {
	Major uint32
	// Minors are the minor numbers; nil means all.
	Minors []uint32
}

// Holder is a process that holds devices.
type Holder struct {
	procowner.Process
	// Devices are the paths of the devices, as the process sees them, in order.
	Devices []string
}
