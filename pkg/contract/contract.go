// Package contract has the files by which the agents of a node exchange facts: stamped
// files in one folder of the host, /run/nvidia. An agent never calls another agent, and no
// file is a gate: an agent that needs the driver asks the driver. The files wake agents
// that wait, and inform people and NVIDIA's tools.
package contract

import (
	"path/filepath"
	"time"
)

// Name is the name of a fact and of its file.
type Name string

// The facts of the node contract.
const (
	// DriverReady: kernel module loaded, device nodes present, NVML answers.
	DriverReady Name = "driver-ready"
	// ToolkitReady: CDI specs complete, container runtime configured.
	ToolkitReady Name = "toolkit-ready"
	// PluginReady: registered with the kubelet, devices listed. It is valid while its
	// writer lives.
	PluginReady Name = "plugin-ready"
	// CUDAReady: the CUDA sample passed.
	CUDAReady Name = "cuda-ready"
)

// Names returns the names of all facts.
func Names() []string {
	return []string{string(DriverReady), string(ToolkitReady), string(PluginReady), string(CUDAReady)}
}

// Keys of NVIDIA's driver-ready file, which agents' start scripts source.
const (
	KeyIsHostDriver      = "IS_HOST_DRIVER"
	KeyDriverRoot        = "NVIDIA_DRIVER_ROOT"
	KeyDriverRootCtrPath = "DRIVER_ROOT_CTR_PATH"
	KeyDevRoot           = "NVIDIA_DEV_ROOT"
	KeyDevRootCtrPath    = "DEV_ROOT_CTR_PATH"
)

// State says whether a fact holds.
type State string

// The values of State.
const (
	// Valid: the fact holds.
	Valid State = "valid"
	// Missing: the file does not exist.
	Missing State = "missing"
	// Stale: the file was written before the last boot, or for another driver than the
	// kernel runs.
	Stale State = "stale"
	// WriterDead: the file is valid only while its writer lives, and the writer has
	// ended.
	WriterDead State = "writer dead"
	// Unreadable: the file cannot be read or understood.
	Unreadable State = "unreadable"
)

// Stamp says who wrote a file, and when.
type Stamp struct {
	// BootID of the kernel. A file of another boot is stale.
	BootID string
	// Writer is the name of the agent.
	Writer string
	Time   time.Time
	// DriverVersion that the writer found, empty if the fact does not depend on it.
	DriverVersion string
	// Held is set for a file that its writer keeps locked while it lives.
	Held bool
}

// Fact is what a reader learns about one fact.
type Fact struct {
	State State
	// Reason says why State is not Valid.
	Reason string
	// Stamp is zero for a file of a program that writes no stamp.
	Stamp Stamp
	// Values holds the file's other keys.
	Values map[string]string
}

// Record is what a writer publishes.
type Record struct {
	// Writer is the name of the agent.
	Writer        string
	DriverVersion string
	// Values are written as KEY=value, for shells to source.
	Values map[string]string
}

// Dir is the folder of the contract on one node.
type Dir struct {
	// Root is the run root, usually "/run/nvidia".
	Root string
	// ProcRoot is where the host's /proc is; empty for "/proc". A driver-ready file is
	// compared with the driver there.
	ProcRoot string
	// BootIDFile has the boot id; empty for /proc/sys/kernel/random/boot_id, which is
	// the same in all containers.
	BootIDFile string
}

// Path returns the path of a fact's file.
func (d Dir) Path(n Name) string {
	return filepath.Join(d.folder(), string(n))
}

// folder holds the files of the facts.
func (d Dir) folder() string { return filepath.Join(d.Root, "validations") }
