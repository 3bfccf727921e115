package inventory

import (
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// Owner claims the GPUs that this process advertises.
type Owner interface {
	// Own claims exactly these GPUs, releases all others, and returns a reason for
	// each GPU that it could not claim. After an error it is called again. It must not
	// block for long.
	Own(gpus []gpu.UUID) (map[gpu.UUID]Rejection, error)
	// Notify sets what is called when a GPU that could not be claimed may be free, and
	// when a claim is lost.
	Notify(func())
}

// Rejection is why a GPU could not be claimed.
type Rejection struct {
	Reason string
	// Fault is set if the claim failed, rather than that another process has the
	// GPU.
	Fault bool
}

// Gate closes resources that a container could not use yet.
type Gate interface {
	// Closed returns why the device of the resource cannot be allocated, empty if it can.
	Closed(resource.Resource, resource.Device, config.Config) string
	// Notify sets what is called when Closed may return something else than before.
	Notify(func())
}

// owned returns the set without the GPUs that could not be claimed, and why the claims
// should be tried again.
func (v *Inventory) owned(set resource.Set) (resource.Set, error) {
	if v.cfg.Owner == nil {
		return set, nil
	}
	uuids := map[int]gpu.UUID{}
	for i := range v.state.Node.GPUs {
		uuids[v.state.Node.GPUs[i].Index] = v.state.Node.GPUs[i].UUID
	}
	var desired []gpu.UUID
	seen := map[int]bool{}
	for _, r := range set.Resources {
		for _, d := range r.Devices {
			if !seen[d.GPU] {
				seen[d.GPU] = true
				desired = append(desired, uuids[d.GPU])
			}
		}
	}
	rejected, err := v.cfg.Owner.Own(desired)
	if len(rejected) == 0 {
		return set, err
	}
	return set.Without(func(d resource.Device) (resource.Kind, string) {
		r := rejected[uuids[d.GPU]]
		if r.Fault {
			return resource.KindFault, r.Reason
		}
		return resource.KindExcluded, r.Reason
	}), err
}

// gated returns the set in which devices that are closed are unhealthy.
func (v *Inventory) gated(set resource.Set) resource.Set {
	if v.cfg.Gate == nil {
		return set
	}
	for i := range set.Resources {
		r := &set.Resources[i]
		for j := range r.Devices {
			d := &r.Devices[j]
			if !d.Health.Healthy {
				continue
			}
			if reason := v.cfg.Gate.Closed(*r, *d, v.state.Config); reason != "" {
				d.Health = health.Status{Kind: health.KindMPS, Reason: reason}
			}
		}
	}
	return set
}
