// Package load makes simulated GPUs show the load of the pods that use them, and of loads that
// people set by hand.
//
// Apply records the loads in the node's folder, derives the values of the GPUs from the record and
// the time (pure), and writes the values that differ into the node's state. gpu-sim uses it for
// loads by hand, and package podload for the loads of pods. Values of a range vary while podload
// runs.
package load

import (
	"hash/fnv"
	"math"
	"time"

	"outrigger.dev/pkg/scenario"
)

// Load is the use of a GPU or MIG device by a pod, or by hand.
type Load struct {
	// Owner is the pod, as namespace/name. It is empty for a load by hand.
	Owner string `json:"owner,omitempty"`
	// Seed is the UID of the pod. Two loads of a range differ by their seeds and devices.
	Seed string `json:"seed,omitempty"`
	// Device is the UUID of a GPU or MIG device.
	Device string `json:"device"`
	// PIDs are running processes of the owner, at most one for each container.
	PIDs []int `json:"pids,omitempty"`
	Use
}

// Use says how much of a device is used.
type Use struct {
	// Utilization is in percent. The values of the GPU that it does not set follow from it.
	Utilization scenario.Range `json:"utilization"`
	// Memory is in bytes.
	Memory uint64 `json:"memory,omitempty"`
	// Fields has values in percent by their names in state.Activities. They replace the values that
	// follow from Utilization.
	Fields map[string]scenario.Range `json:"fields,omitempty"`
}

// The periods of the two waves of a range, which add up to a curve that repeats late.
const (
	slowest  = 180 * time.Second
	fastest  = 40 * time.Second
	overtone = 17 * time.Second
)

// at returns the value of a range at a time. It depends only on the arguments, so that all processes
// get the same value.
func (l Load) at(r scenario.Range, now time.Time) uint64 {
	if r.Low == r.High {
		return uint64(r.Low)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(l.Seed + l.Device))
	seed := h.Sum64()
	period := fastest + time.Duration(seed%uint64(slowest-fastest)) //nolint:gosec // less than slowest
	slow := wave(now, period, float64(seed>>32)/math.MaxUint32)
	quick := wave(now, overtone, float64(uint32(seed))/math.MaxUint32) //nolint:gosec // the low word
	const share = 0.8
	level := (share*slow+(1-share)*quick)/2 + 0.5 //nolint:mnd // from -1..1 to 0..1
	return uint64(r.Low) + uint64(math.Round(level*float64(r.High-r.Low)))
}

// wave returns a value from -1 to 1. The phase is from 0 to 1.
func wave(now time.Time, period time.Duration, phase float64) float64 {
	turns := float64(now.UnixNano()%int64(period))/float64(period) + phase
	return math.Sin(2 * math.Pi * turns) //nolint:mnd // a full turn
}
