// Package telemetry reads the values of one GPU that change while it works, such as its
// power, clocks, memory and error counters, through NVML. A Sampler reads those that its
// caller wants, with as few calls as possible, for the GPU and for each of its GPU
// instances.
//
// Values have the numbers and the units of DCGM's fields (dcgm_fields.h), which metrics,
// dashboards and alerts are built on.
package telemetry

import (
	"math"
	"time"
)

// Field is the number of a value. Numbers below 2000 are those of DCGM, whose names they have.
type Field uint16

// Values that DCGM has no field for.
const (
	// PCIeTxBytes and PCIeRxBytes count the bytes that the GPU sent and received over PCIe.
	PCIeTxBytes Field = iota + 20_000
	PCIeRxBytes
	// NVLinkTxBytes and NVLinkRxBytes count the bytes of data that the GPU sent and
	// received over its NVLinks.
	NVLinkTxBytes
	NVLinkRxBytes
	// ThrottledPowerCap, and so on, count the nanoseconds in which the clocks were held
	// down for a reason.
	ThrottledPowerCap
	ThrottledSyncBoost
	ThrottledSWThermal
	ThrottledHWThermal
	ThrottledPowerBrake
	// PeerStatus has no value of its own: it asks for Sample.Peers.
	PeerStatus
)

// Values are values by field, in the units of DCGM.
type Values map[Field]float64

// put stores a value. What is not a number is not stored: GPM reports a metric without a
// value so.
func (v Values) put(f Field, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		v[f] = value
	}
}

// Sample is one reading of a GPU.
type Sample struct {
	// At is when the reading began, and Took how long it took.
	At   time.Time
	Took time.Duration
	// GPU has the values of the GPU as a whole.
	GPU Values
	// Instances has the values of its GPU instances, by id. It is empty if the GPU is not
	// divided.
	Instances map[uint32]Values
	// Texts has the values that are text, such as the serial number.
	Texts map[Field]string
	// Peers says by the index of each other GPU whether this one reaches it over NVLink
	// (nvmlGpuP2PStatus_t, 0 for yes).
	Peers map[int]uint32
	// Processes has what the processes on the GPU use, if they are wanted.
	Processes []Process
	// Absent says why a field that is wanted has no value.
	Absent map[Field]string
	// Begun is set if this reading begins to measure values that the next one has: it should come soon.
	Begun bool
	// Failed counts the calls that failed, by symbol, apart from those that the GPU does
	// not support.
	Failed map[string]int
}

// Process is a process that has a CUDA context on a GPU.
type Process struct {
	// PID is that of the host's PID namespace if the agent is in it, or else 0.
	PID uint32
	// Instance is the GPU instance of the process, or gpu.NoInstance.
	Instance uint32
	// Memory is the GPU memory that the process uses, in bytes.
	Memory uint64
	// SMSeconds is how long the process has kept the GPU's multiprocessors busy since the
	// Sampler first saw it, in seconds; 0 where the driver does not say.
	SMSeconds float64
}
