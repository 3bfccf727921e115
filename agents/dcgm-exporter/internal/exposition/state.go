// Package exposition derives the exporter's metrics from the readings of the node's GPUs, and from
// the pods that use them. It does no I/O and has no clock.
package exposition

import (
	"slices"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/podresources"
)

// Options select the metrics to serve, and their form. They are flags of the exporter.
type Options struct {
	// Metrics is the list of metrics.
	Metrics []counters.Metric
	// Names selects the set of names of the metrics.
	Names Names
	// Hostname has the names of the labels whose value is the name of the node.
	Hostname []string
	// OldNamespace gives labels the names of DCGM Exporter 1.x: uuid, pod_name.
	OldNamespace bool
	// ReplaceBlanks puts "-" in place of blanks in the name of the model.
	ReplaceBlanks bool
	// VirtualGPUs also serves each metric of a shared GPU for each of its containers, with the
	// label vgpu.
	VirtualGPUs bool
	// Dedupe serves a value of a whole GPU in MIG mode once, and not with each GPU instance. Values
	// of links are always served once.
	Dedupe bool
	// Devices selects GPUs by their index, and GPU instances by their ID.
	Devices Selector
	// XIDWindow and ClockWindow are how long errors and clock events count.
	XIDWindow, ClockWindow time.Duration
}

// Names is a set of names of metrics.
type Names string

// The sets of names.
const (
	// Spelled has the names and units as spelled in the list of metrics.
	Spelled Names = "legacy"
	// DCGM47 has the fields of DCGM 4.7, with their names and base units.
	DCGM47 Names = "dcgm47"
	// Both serves each metric under the names of both sets.
	Both Names = "both"
)

// State is the state of a node at one moment.
type State struct {
	Host   string
	Driver gpu.Driver
	GPUs   []GPU
	// Pods has the containers that use a GPU or MIG device. It is nil if they are unknown.
	Pods podresources.Map
	// Labels returns additional labels for the metrics of a pod: the selected labels of the pod,
	// and its UID.
	Labels func(podresources.User) []Label
	// Accounts has the use of devices by containers.
	Accounts []Account
	// Jobs returns the jobs of a batch system on a GPU or GPU instance.
	Jobs func(index int, instance uint32) []string
}

// Label is a label of a metric.
type Label struct{ Name, Value string }

// Account is the use of a GPU or GPU instance by a container, since the exporter first saw the
// container there.
type Account struct {
	GPU gpu.UUID
	// Instance is the ID of the GPU instance, or gpu.NoInstance for the GPU.
	Instance uint32
	User     podresources.User
	// Allocated is how long the container has had the device. Idle is the part of that time in
	// which it did nothing there. SM is how long it kept the multiprocessors busy. All are in
	// seconds.
	Allocated, Idle, SM float64
	// Known is set if Idle and SM are known.
	Known bool
	// Busy is the share of the time between the last two readings that the container kept the
	// multiprocessors busy, below 0 if it is unknown.
	Busy float64
	// Joules is the energy that the device used for the container, if Metered is set.
	Joules  float64
	Metered bool
	// Memory is the memory that the container uses, in bytes, below 0 if it is unknown.
	Memory float64
}

// GPU is a GPU with its last reading and its history.
type GPU struct {
	gpu.GPU
	// Sample is the last reading, or nil if there is none or if it is too old to be served.
	Sample *telemetry.Sample
	// Up is set if the last reading of the GPU succeeded.
	Up bool
	// Errors counts calls that failed, by symbol.
	Errors map[string]uint64
	// Findings are the faults of the GPU and of its instances.
	Findings []health.Finding
	// XIDs are the errors that the driver has reported, in the order of their codes.
	XIDs []XID
	// LastXID is the code of the last error, or 0 for none. LastXIDAt is the time when it was
	// reported.
	LastXID   uint64
	LastXIDAt time.Time
	// Clocks has the reasons that held down the clocks.
	Clocks []ClockEvent
}

// XID counts the reports of one error of a GPU by the driver.
type XID struct {
	Code uint64
	// Instance is the GPU instance, or gpu.NoInstance.
	Instance uint32
	// Total is the count since the start of the exporter, and Recent the count within the window.
	Total, Recent uint64
}

// ClockEvent counts how often a reason held down the clocks of a GPU.
type ClockEvent struct {
	Reason string
	// Total is how often the reason became active since the start of the exporter. Recent is the
	// number of readings within the window that showed it as active.
	Total, Recent uint64
}

// Selector selects GPUs and GPU instances.
type Selector struct {
	// Flexible selects the GPU instances of GPUs in MIG mode, and all GPUs without GPU instances.
	Flexible bool
	// GPUs selects GPUs by index, and Instances selects GPU instances by ID. A nil list selects
	// none, an empty list all.
	GPUs, Instances []int
}

// Missing returns the indices and the IDs that the selector names, and that no GPU of the node has.
func (s Selector) Missing(n *gpu.Node) (gpus, instances []int) {
	gpus, instances = slices.Clone(s.GPUs), slices.Clone(s.Instances)
	for _, g := range n.GPUs {
		gpus = slices.DeleteFunc(gpus, func(index int) bool { return index == g.Index })
		if g.MIG != nil {
			for _, i := range g.MIG.GPUInstances {
				instances = slices.DeleteFunc(instances, func(id int) bool { return uint32(id) == i.ID }) //nolint:gosec // at most 1023
			}
		}
	}
	return gpus, instances
}
