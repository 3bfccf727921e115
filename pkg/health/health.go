// Package health decides which GPUs and MIG devices may be handed out.
//
// It stands between what is observed (events and snapshots of pkg/gpu) and
// what is derived from it (pkg/resource): a state machine without I/O and
// without a clock, so that every sequence of events can be replayed in a test.
package health

import (
	"fmt"

	"outrigger.dev/pkg/gpu"
)

// Status says whether a GPU may be handed out, and if not, why.
type Status struct {
	Healthy bool
	// Reason is empty for a healthy GPU.
	Reason string
}

// View is the health of all GPUs at one moment. What it does not name is
// healthy. It is never changed after it has been returned.
type View struct {
	GPUs map[gpu.UUID]Status
	// Instances has the instances of GPUs that are unfit while their GPU is not.
	Instances map[Instance]Status
}

// Instance is a GPU instance, or one compute instance of it.
type Instance struct {
	GPU gpu.UUID
	// GPUInstance is the id of the GPU instance.
	GPUInstance uint32
	// ComputeInstance is gpu.NoInstance for the whole GPU instance.
	ComputeInstance uint32
}

// Of returns the status of one GPU as a whole. That of its instances is not
// part of it.
func (v View) Of(id gpu.UUID) Status {
	if s, ok := v.GPUs[id]; ok {
		return s
	}
	return Status{Healthy: true}
}

// OfWhole returns the status of a GPU that is handed out with all of its MIG
// devices: it is unfit if one of them is.
func (v View) OfWhole(g *gpu.GPU) Status {
	s := v.Of(g.UUID)
	if !s.Healthy || g.MIG == nil {
		return s
	}
	for _, d := range g.MIG.Devices {
		if s := v.OfMIG(g.UUID, d); !s.Healthy {
			return Status{Reason: fmt.Sprintf("mig device %d: %s", d.Index, s.Reason)}
		}
	}
	return s
}

// OfMIG returns the status of a MIG device of a GPU: that of the first of GPU,
// GPU instance and compute instance which is unfit.
func (v View) OfMIG(id gpu.UUID, d gpu.MIGDevice) Status {
	if s := v.Of(id); !s.Healthy {
		return s
	}
	for _, ci := range []uint32{gpu.NoInstance, d.ComputeInstance} {
		if s, ok := v.Instances[Instance{GPU: id, GPUInstance: d.GPUInstance, ComputeInstance: ci}]; ok {
			return s
		}
	}
	return Status{Healthy: true}
}
