package inventory

import (
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// Owner decides which GPUs are this process's to offer.
type Owner interface {
	// Own takes the GPUs that are offered from now on, gives the others back,
	// and returns why each of those is not to be had that are not. It must not
	// block for long.
	Own(gpus []gpu.UUID) map[gpu.UUID]Refusal
	// Freed tells that a GPU which was not to be had may be now.
	Freed() <-chan struct{}
}

// Refusal is why a GPU is not this process's to offer.
type Refusal struct {
	Reason string
	// Fault is set where nothing but a fault keeps the GPU from being offered:
	// another process that offers it is none.
	Fault bool
}

// Gate keeps resources from being handed out that a container could not use yet.
type Gate interface {
	// Closed returns why, empty if the resource can be handed out.
	Closed(resource.Resource, config.Config) string
	// Changed tells that Closed may answer otherwise than before.
	Changed() <-chan struct{}
}

func (v *Inventory) freed() <-chan struct{} {
	if v.cfg.Owner == nil {
		return nil
	}
	return v.cfg.Owner.Freed()
}

func (v *Inventory) gates() <-chan struct{} {
	if v.cfg.Gate == nil {
		return nil
	}
	return v.cfg.Gate.Changed()
}

// owned returns the set without the GPUs that another process offers.
func (v *Inventory) owned(set resource.Set) resource.Set {
	if v.cfg.Owner == nil {
		return set
	}
	uuids := map[int]gpu.UUID{}
	for i := range v.state.Node.GPUs {
		uuids[v.state.Node.GPUs[i].Index] = v.state.Node.GPUs[i].UUID
	}
	var wanted []gpu.UUID
	seen := map[int]bool{}
	for _, r := range set.Resources {
		for _, d := range r.Devices {
			if !seen[d.GPU] {
				seen[d.GPU] = true
				wanted = append(wanted, uuids[d.GPU])
			}
		}
	}
	refused := v.cfg.Owner.Own(wanted)
	if len(refused) == 0 {
		return set
	}
	return set.Without(func(d resource.Device) (resource.Kind, string) {
		r := refused[uuids[d.GPU]]
		if r.Fault {
			return resource.KindFault, r.Reason
		}
		return resource.KindExcluded, r.Reason
	})
}

// gated returns the set with the resources unfit that cannot be handed out yet.
func (v *Inventory) gated(set resource.Set) resource.Set {
	if v.cfg.Gate == nil {
		return set
	}
	for i := range set.Resources {
		r := &set.Resources[i]
		reason := v.cfg.Gate.Closed(*r, v.state.Config)
		if reason == "" {
			continue
		}
		for j := range r.Devices {
			// What is offered once is nobody's business but its own.
			if d := &r.Devices[j]; d.Replicas > 1 && d.Health.Healthy {
				d.Health = health.Status{Reason: reason}
			}
		}
	}
	return set
}
