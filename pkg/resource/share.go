package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

// share decides under which name and how many times each unit is advertised. The shares apply in
// order. Each share applies to units that no earlier share took.
func (d *derivation) share(units []*unit) []*unit {
	byResource := map[string][]*unit{}
	for _, u := range units {
		u.advertised = u.resource
		byResource[u.resource] = append(byResource[u.resource], u)
	}
	for i, s := range d.config.Sharing.Shares {
		d.apply(s, d.chosen(byResource[s.Name], s, strconv.Itoa(i)))
	}
	if d.config.Sharing.Strategy != config.SharingMPS {
		return units
	}
	return slices.DeleteFunc(units, func(u *unit) bool {
		if u.replicas == 0 {
			return false
		}
		reason := mpsRejects(u)
		u.mps = u.mig == nil && reason == ""
		// A unit with one replica is not shared, so MPS need not support it.
		if u.mps || u.replicas == 1 {
			return false
		}
		d.omit(u, cause.DeviceConfig, "%s", reason)
		return true
	})
}

// apply applies the share to units. MPS does not share MIG devices: they are advertised once, under
// their name without sharing.
func (d *derivation) apply(s config.Share, units []*unit) {
	once := 0
	for _, u := range units {
		u.replicas = d.replicas(u, s)
		if u.replicas > 1 && u.mig != nil && d.config.Sharing.Strategy == config.SharingMPS {
			u.replicas = 1
			once++
			continue
		}
		u.advertised = cmp.Or(s.Rename, s.Name)
	}
	if once > 0 {
		d.addNote("sharing of %s: MPS does not share MIG devices (%d), each is advertised once: share them by timeSlicing", s.Name, once)
	}
}

// chosen returns the units of the resource that the share takes. number is the position of the share in
// the config.
func (d *derivation) chosen(all []*unit, s config.Share, number string) []*unit {
	free := slices.DeleteFunc(slices.Clone(all), func(u *unit) bool { return u.replicas > 0 })
	switch {
	case len(all) == 0:
		d.addNote("sharing of %s: this node has no such devices", s.Name)
	case len(free) == 0:
		d.addNote("sharing of %s: earlier entries take all devices", s.Name)
	case s.Devices.Count > len(free):
		d.addNote("sharing of %s: %d devices are configured, but the node has %d", s.Name, s.Devices.Count, len(free))
	}
	switch {
	case s.Devices.All():
		return free
	case len(s.Devices.Refs) == 0:
		return d.first(s, free, number)
	case len(free) == 0:
		return nil
	}
	d.checkRefs(s, all, free)
	return slices.DeleteFunc(free, func(u *unit) bool {
		return !slices.ContainsFunc(s.Devices.Refs, func(r config.Ref) bool { return u.hasName(string(r)) })
	})
}

// checkRefs adds a note for each ref of the share that matches no unit.
func (d *derivation) checkRefs(s config.Share, all, free []*unit) {
	for _, r := range s.Devices.Refs {
		called := func(u *unit) bool { return u.hasName(string(r)) }
		switch {
		case slices.ContainsFunc(free, called):
		case slices.ContainsFunc(all, called):
			d.addNote("sharing of %s: an earlier entry takes device %q", s.Name, r)
		default:
			d.addNote("sharing of %s: the node has no such device %q", s.Name, r)
		}
	}
}

// replicas returns the number of replicas of the unit in the share.
func (d *derivation) replicas(u *unit, s config.Share) int {
	if s.Replicas != config.AutoReplicas {
		return max(s.Replicas, 1)
	}
	if u.memory() == 0 {
		d.addNote("sharing of %s: the memory of device %s is unknown, so the device is advertised once", s.Name, u.index)
		return 1
	}
	const token = 1000 << 20
	return max(int(u.memory()/token), 1)
}

// mpsRejects returns why MPS cannot share the unit as configured. It is empty if MPS can.
func mpsRejects(u *unit) string {
	cc := u.gpu.ComputeCapability
	switch {
	case u.wholeInMIGMode():
		return "MPS does not share a GPU whose MIG mode is on: share it by timeSlicing, take it out of sharing.mps, or turn the mode off"
	case cc == gpu.Version{} && u.gpu.Fault != nil:
		// The unit is advertised as unhealthy, like any GPU that fails.
		return ""
	case cc.Major < 3 || cc.Major == 3 && cc.Minor < 5:
		return fmt.Sprintf("MPS needs a GPU of compute capability 3.5 or later, but this GPU has %d.%d:"+
			" share it by timeSlicing, or take it out of sharing.mps", cc.Major, cc.Minor)
	case u.replicas > mpsClients(cc):
		return fmt.Sprintf("MPS serves up to %d clients of a GPU of compute capability %d.%d, but %d replicas are configured:"+
			" lower the replicas", mpsClients(cc), cc.Major, cc.Minor, u.replicas)
	}
	return ""
}

// mpsClients returns the number of simultaneous MPS clients of a GPU, which is higher since Volta
// (MPS documentation, "Client-Server Connection Limits").
func mpsClients(cc gpu.Version) int {
	if cc.Major >= 7 {
		return 48
	}
	return 16
}
