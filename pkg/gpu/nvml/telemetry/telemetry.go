// Package telemetry reads, through NVML, the values of one GPU that change while it works, such as
// its power, clocks, memory and error counters. A Sampler reads the values that its caller wants,
// with as few calls as possible, for the GPU and for each of its GPU instances.
//
// Values have the numbers and the units of DCGM's fields (dcgm_fields.h), because metrics,
// dashboards and alerts are based on these.
package telemetry

import (
	"math"
	"time"

	"outrigger.dev/pkg/gpu"
)

// Field is the number of a value. Numbers below 2000 are the numbers of DCGM's fields, under the
// same names.
type Field uint16

// Values without a field in DCGM.
const (
	// PCIeTxBytes and PCIeRxBytes count the bytes that the GPU sent and received over PCIe.
	PCIeTxBytes Field = iota + 20_000
	PCIeRxBytes
	// NVLinkTxBytes and NVLinkRxBytes count the bytes of data that the GPU sent and
	// received over its NVLinks.
	NVLinkTxBytes
	NVLinkRxBytes
	// ThrottledPowerCap and the following fields count the nanoseconds while the clocks were
	// reduced for a reason.
	ThrottledPowerCap
	ThrottledSyncBoost
	ThrottledSWThermal
	ThrottledHWThermal
	ThrottledPowerBrake
	// PeerStatus has no value. It requests Sample.Peers.
	PeerStatus
)

// linkBytes is the first of two fields for each NVLink. They count the bytes of data that the GPU sent
// and received over this link.
const linkBytes Field = 20_100

// Values are values by field, in the units of DCGM.
type Values map[Field]float64

// put stores a value. It skips values that are not a number, which GPM reports for a metric without
// a value.
func (v Values) put(f Field, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		v[f] = value
	}
}

// Sample is one reading of a GPU.
type Sample struct {
	// At is the start time of the reading, and Took its duration.
	At   time.Time
	Took time.Duration
	// GPU has the values of the GPU as a whole.
	GPU Values
	// Instances has the values of its GPU instances, by id. It is empty if the GPU is not
	// divided.
	Instances map[uint32]Values
	// Texts has the values that are text, such as the serial number.
	Texts map[Field]string
	// Peers says for each other GPU whether this GPU reaches it over NVLink (nvmlGpuP2PStatus_t, 0 for
	// yes).
	Peers map[gpu.UUID]uint32
	// Processes has the processes on the GPU with their memory and utilization, if they are wanted.
	Processes []Process
	// Absent says why a wanted field has no value.
	Absent map[Field]string
	// Begun is set if this reading began to measure values that the next reading will have. The
	// next reading should then follow soon.
	Begun bool
	// Failed counts the failed calls by symbol, except for calls that the GPU does not support.
	Failed map[string]int
}

// Process is a process that has a CUDA context on a GPU.
type Process struct {
	// PID is the process ID in the host's PID namespace if the agent is in that namespace,
	// otherwise 0.
	PID uint32
	// Instance is the GPU instance of the process, or gpu.NoInstance.
	Instance uint32
	// Memory is the GPU memory that the process uses, in bytes.
	Memory uint64
	// SMSeconds is the time that the process has kept the GPU's multiprocessors busy since the
	// Sampler first saw it, in seconds. It is 0 if the driver does not report it.
	SMSeconds float64
}
