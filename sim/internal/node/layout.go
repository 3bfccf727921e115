// Package node renders a simulated GPU node below a folder, changes it live, and applies it in a
// private mount namespace, so that programs find the node at the real paths.
//
// The functions procfs, sysfs, devices and driverTree derive the content of the folder from the
// node's state, as plain entries. Package tree writes the entries.
package node

import "outrigger.dev/sim/internal/mounts"

// Paths below the node's folder.
const (
	// stateFile is the shared state. The driver root also has it, as a firmware file of the driver.
	stateFile = "state"
	// lockFile is locked by a process that changes the folder.
	lockFile = "lock"
	// stageDir is the folder for preparing new entries. Overlays store their writes in it.
	stageDir = "stage"
	// containerRoot is the driver root of a driver container. It is empty until the driver is loaded.
	containerRoot = "run/nvidia/driver"
	// runDir is /run/nvidia in the mount namespace of Enter. It does not have the driver root, which is there only
	// for some nodes.
	runDir = "run/agents"
	// hookFile is the hook of container runtimes, below containerRoot, where containers' programs may run from. It stays while
	// the GPUs change, because runtimes may be about to run it.
	hookFile      = "gpu-sim-hook"
	procDir       = "proc"
	procDriverDir = mounts.ProcDriver
	procDevFile   = mounts.ProcDevices
	devDir        = "dev"
	// modulesDir has the modules of a simulated kernel. firmwarePath names the firmware folder of
	// that kernel.
	modulesDir   = "sys/module"
	firmwarePath = modulesDir + "/firmware_class/parameters/path"
)
