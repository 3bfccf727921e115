package gpu

import (
	"cmp"
	"fmt"
	"slices"
)

// validate checks the MIG state of one GPU.
func (m *MIG) validate(c *checker, field string) {
	c.check(m.Enabled || len(m.Devices) == 0, field+".devices", "must be empty while the mode is off")
	for i := range m.Devices {
		d, before := &m.Devices[i], m.Devices[:i]
		name := fmt.Sprintf("%s.devices[%d]", field, i)
		d.validate(c, name)
		c.check(i == 0 || before[i-1].order(d) < 0, name, "is not in order: sort the devices by GPU instance and compute instance")
		index := slices.ContainsFunc(before, func(o MIGDevice) bool { return o.Index == d.Index })
		c.check(!index, name+".index", "%d appears twice", d.Index)
		for j := range before {
			d.validateBeside(c, name, &before[j])
		}
	}
	m.validateInstances(c, field+".gpuInstances")
}

// order compares the positions of two devices in the list of their GPU. Devices of an unknown
// instance are last.
func (d *MIGDevice) order(o *MIGDevice) int {
	return cmp.Or(cmp.Compare(d.GPUInstance, o.GPUInstance), cmp.Compare(d.ComputeInstance, o.ComputeInstance),
		cmp.Compare(d.Index, o.Index))
}

// validate checks a device without regard to other devices. A device with a fault only needs an
// index.
func (d *MIGDevice) validate(c *checker, field string) {
	works := d.Fault == nil
	c.uuid(d.UUID, d.Fault, field+".uuid")
	c.check(d.Index >= 0, field+".index", "is negative")
	c.check(!works || d.GPUInstance != NoInstance, field+".gpuInstance", "is missing")
	c.check(!works || d.ComputeInstance != NoInstance, field+".computeInstance", "is missing")
	c.check(!works || d.Profile != Profile{}, field+".profile", "is missing")
	c.check(d.Placement.Start >= 0, field+".placement.start", "is negative")
	c.check(d.Placement.Size >= 0, field+".placement.size", "is negative")
	lowest := 0
	if !works {
		lowest = -1
	}
	c.check(d.GPUInstanceCap >= lowest, field+".gpuInstanceCap", "is negative")
	c.check(d.ComputeInstanceCap >= lowest, field+".computeInstanceCap", "is negative")
	e := d.Engines
	for _, n := range []int{
		e.Multiprocessors, e.GPUInstanceSlices, e.ComputeInstanceSlices, e.Copy, e.Decoder, e.Encoder, e.JPEG, e.OFA,
	} {
		c.check(n >= 0, field+".engines", "%d is negative", n)
	}
	c.check(works || d.Fault.Reason != "", field+".fault.reason", "is missing")
}

// validateBeside checks that d and o can be on the same GPU.
func (d *MIGDevice) validateBeside(c *checker, field string, o *MIGDevice) {
	if d.GPUInstance == NoInstance || o.GPUInstance == NoInstance {
		return
	}
	if d.GPUInstance == o.GPUInstance {
		known := d.Placement != Placement{} && o.Placement != Placement{}
		c.check(!known || d.Placement == o.Placement, field+".placement", "differs from the placement of the other devices of GPU instance %d", d.GPUInstance)
		c.check(d.ComputeInstance != o.ComputeInstance || d.ComputeInstance == NoInstance,
			field+".computeInstance", "%d of GPU instance %d appears twice", d.ComputeInstance, d.GPUInstance)
		return
	}
	c.check(!d.Placement.Overlaps(o.Placement), field+".placement", "overlaps the placement of GPU instance %d", o.GPUInstance)
}

// validateInstances checks the GPU instances of one GPU if the snapshot lists them.
func (m *MIG) validateInstances(c *checker, field string) {
	if len(m.GPUInstances) == 0 {
		return
	}
	c.check(m.Enabled, field, "must be empty while the mode is off")
	places := map[uint32]Placement{}
	for i, in := range m.GPUInstances {
		name := fmt.Sprintf("%s[%d]", field, i)
		c.check(in.ID != NoInstance, name+".id", "is missing")
		c.check(i == 0 || m.GPUInstances[i-1].ID < in.ID, name+".id", "must be greater than the id of the previous instance")
		c.check(in.Placement.Start >= 0 && in.Placement.Size >= 0, name+".placement", "is negative")
		for _, o := range m.GPUInstances[:i] {
			c.check(!in.Placement.Overlaps(o.Placement), name+".placement", "overlaps the placement of GPU instance %d", o.ID)
		}
		places[in.ID] = in.Placement
	}
	for i := range m.Devices {
		if d := &m.Devices[i]; d.GPUInstance != NoInstance {
			place, listed := places[d.GPUInstance]
			c.check(listed, field, "GPU instance %d of a device is missing", d.GPUInstance)
			known := d.Placement.Size > 0 && place.Size > 0
			c.check(!listed || !known || place == d.Placement, field, "GPU instance %d and its devices have different placements", d.GPUInstance)
		}
	}
}
