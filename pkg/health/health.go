// Package health decides which GPUs and MIG devices may be allocated.
//
// It is a state machine between the observed state (the events and snapshots of pkg/gpu) and the
// derived state (pkg/resource). It does no I/O and has no clock, so that a test can replay every
// sequence of events.
package health

import (
	"fmt"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// Status says whether a device may be allocated. If not, it has the reason.
type Status struct {
	Healthy bool
	// Kind and Reason are empty for a healthy device.
	Kind   cause.Code
	Reason string
}

// View is the health of all GPUs at one moment. GPUs and instances that are not in it are healthy.
// A View does not change after it has been returned.
type View struct {
	GPUs map[gpu.UUID]Status
	// Instances has the instances that are unhealthy while their GPU is healthy.
	Instances map[Instance]Status
	// Findings has the faults of each GPU and of its instances, also those that leave it healthy.
	Findings map[gpu.UUID][]Finding
}

// Instance is a GPU instance, or one compute instance of it.
type Instance struct {
	GPU gpu.UUID
	// GPUInstance is the id of the GPU instance.
	GPUInstance uint32
	// ComputeInstance is gpu.NoInstance for the whole GPU instance.
	ComputeInstance uint32
}

// Of returns the status of one GPU as a whole. It ignores the status of the GPU's instances.
func (v View) Of(id gpu.UUID) Status {
	if s, ok := v.GPUs[id]; ok {
		return s
	}
	return Status{Healthy: true}
}

// OfWhole returns the status of a GPU that is allocated with all of its MIG devices. It is
// unhealthy if one of them is.
func (v View) OfWhole(g *gpu.GPU) Status {
	s := v.Of(g.UUID)
	if !s.Healthy || g.MIG == nil {
		return s
	}
	for _, d := range g.MIG.Devices {
		if s := v.OfMIG(g.UUID, d); !s.Healthy {
			return Status{Kind: s.Kind, Reason: fmt.Sprintf("mig device %d: %s", d.Index, s.Reason)}
		}
	}
	return s
}

// OfMIG returns the status of a MIG device of a GPU. It is the first unhealthy status of the GPU,
// the GPU instance and the compute instance.
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
