// Package contract reads and writes the files in /run/nvidia through which the agents of a node
// communicate:
//
//   - A fact, such as driver-ready, is something that one agent reports to the others. Its
//     file has KEY=value lines, and a stamp that says who wrote it and when.
//   - The lease on NVML is shared by the agents that use NVML. An agent that needs NVML for
//     itself claims it.
//   - The claim of a GPU is the right to advertise this GPU.
//
// An agent never calls another agent, and does not rely on a fact that it can check itself: an
// agent that needs the driver asks the driver. Facts wake agents that wait, and inform people and
// NVIDIA's tools.
package contract

import (
	"log/slog"
	"maps"
	"path/filepath"
	"time"
)

// Name is the name of a fact and of its file.
type Name string

// The facts that agents report.
const (
	// DriverReady means that the kernel module is loaded, the device nodes exist, and
	// NVML answers.
	DriverReady Name = "driver-ready"
	// MIGReady means that the GPUs have had the MIG layouts of the node's config since the last
	// boot and since the driver was loaded. Some GPUs lose their layouts at
	// these times.
	MIGReady Name = "mig-ready"
	// ToolkitReady means that the CDI specs are complete and the container runtime is configured.
	// It is valid while its writer lives. A writer that ends and leaves its tools on the node also
	// leaves the file.
	ToolkitReady Name = "toolkit-ready"
	// PluginReady means that the device plugin is registered with the kubelet and lists
	// its devices. It is valid while its writer lives.
	PluginReady Name = "plugin-ready"
	// DRAReady means that the DRA plugin is registered with the kubelet and has published
	// its devices. It is valid while its writer lives.
	DRAReady Name = "dra-ready"
	// CUDAReady means that a CUDA program has run on the node.
	CUDAReady Name = "cuda-ready"
)

// PluginConfig is the file with the config that the device plugin has in effect, for agents that
// describe its devices. It is valid while its writer lives. Names does not return it, because
// agents do not wait for it.
const PluginConfig Name = "plugin-config"

// GPUIndex is the file that maps the indices of GPUs and MIG devices to their UUIDs for this boot
// (package gpu/index). Names does not return it, because agents do not wait for it.
const GPUIndex Name = "gpu-index"

// GPUIncidents is the file with the XIDs of this boot that count against GPUs (package health/record).
// Names does not return it, because agents do not wait for it.
const GPUIncidents Name = "gpu-incidents"

// Names returns the names of all facts.
func Names() []string {
	return []string{string(DriverReady), string(MIGReady), string(ToolkitReady), string(PluginReady), string(DRAReady), string(CUDAReady)}
}

// The keys of NVIDIA's driver-ready file. The start scripts of NVIDIA's components source
// this file.
const (
	KeyIsHostDriver      = "IS_HOST_DRIVER"
	KeyDriverRoot        = "NVIDIA_DRIVER_ROOT"
	KeyDriverRootCtrPath = "DRIVER_ROOT_CTR_PATH"
	KeyDevRoot           = "NVIDIA_DEV_ROOT"
	KeyDevRootCtrPath    = "DEV_ROOT_CTR_PATH"
)

// KeyCDIHook is the key of toolkit-ready with the path on the host of the nvidia-cdi-hook
// that the container toolkit has installed.
const KeyCDIHook = "NVIDIA_CDI_HOOK_PATH"

// State is the state of a fact.
type State string

// The values of State.
const (
	// Valid means that the fact holds.
	Valid State = "valid"
	// Missing means that the file does not exist.
	Missing State = "missing"
	// Stale means that the file was written before the last boot, or for another version than the
	// loaded driver has.
	Stale State = "stale"
	// WriterDead means that the file is valid only while its writer lives, and that the writer has
	// ended.
	WriterDead State = "writer dead"
	// Unreadable means that the file cannot be read or parsed.
	Unreadable State = "unreadable"
)

// Stamp has the writer of a file, the time, and the driver version.
type Stamp struct {
	// BootID identifies the boot. A file of another boot is stale.
	BootID string
	// Writer is the name of the agent.
	Writer string
	Time   time.Time
	// DriverVersion is the version that the writer found. It is empty if the fact does not depend
	// on the driver.
	DriverVersion string
	// Held is set if the writer keeps the file locked while it lives (hostfs.LockWrite).
	Held bool
}

// Fact is the content and the state of a fact for a reader.
type Fact struct {
	State State
	// Reason is the reason why State is not Valid.
	Reason string
	// Stamp is zero if the writer of the file does not write stamps.
	Stamp Stamp
	// Values has the file's other keys.
	Values map[string]string
}

// Record is a fact that a writer publishes.
type Record struct {
	// Writer is the name of the agent.
	Writer string
	// DriverVersion is the version that the writer found. It is empty if the fact does
	// not depend on the driver.
	DriverVersion string
	// Values are written as KEY=value lines, which a shell can source.
	Values map[string]string
	// durable makes the file survive a crash of the machine.
	durable bool
}

func (r Record) equal(o Record) bool {
	return r.Writer == o.Writer && r.DriverVersion == o.DriverVersion && maps.Equal(r.Values, o.Values)
}

// Dir is the folder of the contract on one node.
type Dir struct {
	// Root is the run root, usually "/run/nvidia".
	Root string
	// ProcRoot is where the host's /proc is mounted. If empty, it is "/proc". Read compares the
	// version in driver-ready with the driver version there.
	ProcRoot string
	// BootIDFile is the file with the boot id. If empty, it is
	// /proc/sys/kernel/random/boot_id, which is the same in all containers.
	BootIDFile string
	// Log gets messages when this process has to wait. It may be nil.
	Log *slog.Logger
}

func (d Dir) log() *slog.Logger {
	if d.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.Log
}

// Path returns the path of a fact's file.
func (d Dir) Path(n Name) string {
	return filepath.Join(d.folder(), string(n))
}

// folder returns the folder of the facts. Every user may read it.
func (d Dir) folder() string { return filepath.Join(d.Root, "validations") }

// leases returns the folder of the lease and of the claims. Only root may open it.
func (d Dir) leases() string { return filepath.Join(d.Root, "leases") }
