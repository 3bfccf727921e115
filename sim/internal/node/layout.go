// Package node renders a simulated GPU node below a folder, changes it live,
// and applies it in a private mount namespace, so that programs meet the node
// at the paths where a real one would be.
//
// What the folder holds is derived from the node's state as plain entries
// (procfs, sysfs, dev, driverTree), and written by package tree.
package node

// Places below the node's folder.
const (
	// stateFile is the shared state. The driver root has it too, as one of
	// the driver's firmware files.
	stateFile = "state"
	// lockFile is locked by who changes the folder.
	lockFile = "lock"
	// stageDir is where new entries are made before they get their place, and
	// where an overlay keeps what is written to it.
	stageDir = "stage"
	// containerRoot is the driver root of a driver that a container brings:
	// empty until the driver is loaded.
	containerRoot = "run/nvidia/driver"
	procDir       = "proc"
	procDriverDir = "proc/driver"
	procDevFile   = "proc/devices"
	devDir        = "dev"
	// modulesDir has the modules of a simulated kernel, and firmwarePath is the folder in
	// which that kernel looks for firmware.
	modulesDir   = "sys/module"
	firmwarePath = modulesDir + "/firmware_class/parameters/path"
)
