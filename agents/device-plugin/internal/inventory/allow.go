package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// Claims claims the GPUs that this process advertises. contract.Claims implements it.
type Claims interface {
	// Claim claims exactly these GPUs, and releases all others. It returns an error for each GPU
	// that it could not claim. It must not block for long.
	Claim(devices []string) (denied map[string]error)
}

// Gate closes devices that a container cannot use yet.
type Gate interface {
	// Closed returns why the device of the resource cannot be allocated, or "" if it can.
	Closed(resource.Resource, resource.Device, config.Config) string
}

// claim claims the GPUs of the set, and returns the set without the GPUs that could not be claimed.
// It returns an error if a claim failed, unless another process advertises the GPU. On a node
// without a run root, other processes cannot see claims. Then it returns an error and the set with
// all GPUs.
func (v *Inventory) claim(set resource.Set) (resource.Set, error) {
	if v.cfg.Claims == nil {
		return set, nil
	}
	uuids := map[int]gpu.UUID{}
	for i := range v.state.Node.GPUs {
		uuids[v.state.Node.GPUs[i].Index] = v.state.Node.GPUs[i].UUID
	}
	var desired []string
	for _, r := range set.Resources {
		for _, d := range r.Devices {
			if id := uuids[d.GPU]; id.Valid() && !slices.Contains(desired, string(id)) {
				desired = append(desired, string(id))
			}
		}
	}
	denied := v.cfg.Claims.Claim(desired)
	if len(denied) == 0 {
		return set, nil
	}
	var failed error
	for _, device := range slices.Sorted(maps.Keys(denied)) {
		if _, is := errors.AsType[contract.AdvertisedError](denied[device]); !is {
			failed = cmp.Or(failed, denied[device])
		}
	}
	return set.Without(func(d resource.Device) (cause.Code, string) {
		err := denied[string(uuids[d.GPU])]
		by, is := errors.AsType[contract.AdvertisedError](err)
		switch {
		case is:
			return cause.DeviceExcluded, by.Error() + ", and is not advertised twice"
		case err == nil, errors.Is(err, contract.ErrNoRunRoot):
			return "", ""
		}
		return cause.DeviceFault, fmt.Sprintf("check whether another agent advertises it: %v", err)
	}), failed
}

// applyGate returns the set with the closed devices marked as unhealthy.
func (v *Inventory) applyGate(set resource.Set) resource.Set {
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
				d.Health = health.Status{Kind: cause.DeviceMPS, Reason: reason}
			}
		}
	}
	return set
}
