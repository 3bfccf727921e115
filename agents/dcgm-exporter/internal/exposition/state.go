// Package exposition derives what the exporter serves: the metrics of the GPUs of a node, from
// what was read of them and of the pods that use them. It does no I/O and has no clock.
package exposition

import (
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/podresources"
)

// Options say what is served, and how. They are flags of the exporter.
type Options struct {
	// Metrics is the list of metrics.
	Metrics []counters.Metric
	// Names are the names of metrics.
	Names Names
	// Hostname are the names of the label with the name of the node.
	Hostname []string
	// OldNamespace gives labels the names of DCGM Exporter 1.x: uuid, pod_name.
	OldNamespace bool
	// ReplaceBlanks puts "-" in place of blanks in the name of the model.
	ReplaceBlanks bool
	// VirtualGPUs serves each metric of a shared GPU once for each of its containers too, with
	// the label vgpu.
	VirtualGPUs bool
	// Dedupe serves a value of a whole GPU in MIG mode once, and not with each GPU instance.
	Dedupe bool
	// Device selects GPUs by their index, and GPU instances.
	Devices Selector
	// Window is the time in which errors and clock events count.
	XIDWindow, ClockWindow time.Duration
}

// Names is the set of names that metrics have.
type Names string

// The sets of names.
const (
	// Spelled are the names and units as the list of metrics spells them.
	Spelled Names = "legacy"
	// DCGM47 are the names and base units of DCGM 4.7.
	DCGM47 Names = "dcgm47"
	// Both are all of them.
	Both Names = "both"
)

// State is what is known of a node at one moment.
type State struct {
	Host   string
	Driver gpu.Driver
	GPUs   []GPU
	// Pods has the containers that use a GPU or MIG device, nil if they are not known.
	Pods podresources.Map
	// Labels are more labels of the metrics of a pod: those of the pod that are wanted, and
	// its UID.
	Labels func(podresources.User) []Label
	// Accounts are what containers have used.
	Accounts []Account
	// Jobs are the jobs of a batch system on a GPU, or on a GPU instance.
	Jobs func(index int, instance uint32) []string
}

// Label is a label of a metric.
type Label struct{ Name, Value string }

// Account is what a container has used of a GPU or GPU instance since the exporter first saw it
// there.
type Account struct {
	GPU gpu.UUID
	// Instance is gpu.NoInstance for the GPU.
	Instance uint32
	User     podresources.User
	// Allocated is for how long the container has had the device, Idle for how long of that it
	// did nothing there, and SM for how long it kept the multiprocessors busy, in seconds.
	Allocated, Idle, SM float64
	// Known says that Idle and SM are known.
	Known bool
	// Busy is the share of the time before the last reading in which the container kept the
	// multiprocessors busy, below 0 if it is not known.
	Busy float64
	// Joules is the energy that the device used for it, if Metered is set.
	Joules  float64
	Metered bool
	// Memory is the memory that it uses, in bytes, below 0 if that is not known.
	Memory float64
}

// GPU is a GPU and what was read of it.
type GPU struct {
	gpu.GPU
	// Sample is the last reading that is recent enough to be served, nil without one.
	Sample *telemetry.Sample
	// Up says that the GPU answered when it was last asked.
	Up bool
	// Errors counts calls that failed, by symbol.
	Errors map[string]uint64
	// XIDs are the errors that the driver has reported, in the order of their codes.
	XIDs []XID
	// LastXID is the code of the last one, 0 without any, and LastXIDAt when it was reported.
	LastXID   uint64
	LastXIDAt time.Time
	// Clocks are the reasons for which the clocks were held down.
	Clocks []ClockEvent
}

// XID is how often the driver has reported an error of a GPU.
type XID struct {
	Code uint64
	// Instance is the GPU instance, or gpu.NoInstance.
	Instance uint32
	// Total counts since the exporter was started, and Recent within the window.
	Total, Recent uint64
}

// ClockEvent is how often a reason held down the clocks of a GPU.
type ClockEvent struct {
	Reason string
	// Total counts how often the reason began to hold since the exporter was started, and
	// Recent the readings within the window in which it held.
	Total, Recent uint64
}

// Selector selects GPUs and GPU instances.
type Selector struct {
	// Flexible selects everything: the GPU instances of a GPU in MIG mode, and other GPUs.
	Flexible bool
	// GPUs and Instances select by index of the GPU, and by id of the GPU instance. A nil
	// list selects none, an empty one all.
	GPUs, Instances []int
}
