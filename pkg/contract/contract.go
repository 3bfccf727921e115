// Package contract is how the agents of a node tell each other facts: stamped
// files under one folder of the host, /run/nvidia. An agent never calls another
// agent, and no file here is a gate: who needs the driver asks the driver. The
// files wake those who wait, and tell people and NVIDIA's tools.
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
	// PluginReady: registered with the kubelet, devices listed. It dies with
	// its writer.
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
	// Missing: there is no file.
	Missing State = "missing"
	// Stale: the file is of another boot, or of another driver than the
	// kernel runs.
	Stale State = "stale"
	// WriterDead: the file is one that dies with its writer, and it has.
	WriterDead State = "writer dead"
	// Unreadable: the file cannot be read or understood.
	Unreadable State = "unreadable"
)

// Stamp says who wrote a file, and when.
type Stamp struct {
	// BootID of the kernel; a file outlives a reboot only by mistake.
	BootID string
	// Writer is the name of the agent.
	Writer string
	Time   time.Time
	// DriverVersion that the writer found, empty if it does not matter.
	DriverVersion string
	// Held is set for a file that the writer keeps locked while it lives.
	Held bool
}

// Fact is what a reader learns of one fact.
type Fact struct {
	State State
	// Reason says in words why State is not Valid.
	Reason string
	// Stamp is zero for a file that another program wrote.
	Stamp Stamp
	// Values holds the file's other keys.
	Values map[string]string
}

// Record is what a writer says.
type Record struct {
	// Writer is the name of the agent.
	Writer        string
	DriverVersion string
	// Values are written as KEY=value, to be sourced by shells.
	Values map[string]string
}

// Dir is the folder of the contract on one node.
type Dir struct {
	// Root is the run root, usually "/run/nvidia".
	Root string
	// ProcRoot is where the host's /proc is; empty means "/proc". A
	// driver-ready file is compared with the driver found there.
	ProcRoot string
	// BootIDFile is read for the boot id; empty means the kernel's own,
	// /proc/sys/kernel/random/boot_id, which is the same in every container.
	BootIDFile string
}

// Path returns the path of a fact's file.
func (d Dir) Path(n Name) string {
	return filepath.Join(d.folder(), string(n))
}

// folder holds the files of the facts.
func (d Dir) folder() string { return filepath.Join(d.Root, "validations") }
