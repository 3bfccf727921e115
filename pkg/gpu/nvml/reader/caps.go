package reader

import (
	"fmt"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// noCap is the minor of an unknown capability.
const noCap = -1

// fillCaps sets the minors of the capabilities of all MIG devices. A device without them cannot be
// given to a container.
func fillCaps(proc driverproc.Root, devices []device) {
	var asked []driverproc.Capability
	eachMIGDevice(devices, func(g *gpu.GPU, d *gpu.MIGDevice) { asked = append(asked, capOfGI(g, d), capOfCI(g, d)) })
	if len(asked) == 0 {
		return
	}
	minors, err := proc.MIGMinors(asked...)
	minor := func(c driverproc.Capability) int {
		if n, ok := minors[c]; ok {
			return n
		}
		return noCap
	}
	eachMIGDevice(devices, func(g *gpu.GPU, d *gpu.MIGDevice) {
		d.GPUInstanceCap, d.ComputeInstanceCap = minor(capOfGI(g, d)), minor(capOfCI(g, d))
		switch {
		case d.Fault != nil || d.GPUInstanceCap != noCap && d.ComputeInstanceCap != noCap:
		case err != nil:
			d.Fault = &gpu.Fault{Op: "read MIG capabilities", Reason: err.Error()}
		default:
			d.Fault = &gpu.Fault{
				Op:     "read MIG capabilities",
				Reason: fmt.Sprintf("%s does not list %s", proc.MIGMinorsPath(), capOfCI(g, d)),
			}
		}
	})
}

func capOfGI(g *gpu.GPU, d *gpu.MIGDevice) driverproc.Capability {
	return driverproc.Capability{GPU: g.Minor, GPUInstance: int(d.GPUInstance), ComputeInstance: driverproc.WholeInstance}
}

func capOfCI(g *gpu.GPU, d *gpu.MIGDevice) driverproc.Capability {
	return driverproc.Capability{GPU: g.Minor, GPUInstance: int(d.GPUInstance), ComputeInstance: int(d.ComputeInstance)}
}

// eachMIGDevice calls f for the MIG devices of working GPUs whose instances are known.
func eachMIGDevice(devices []device, f func(*gpu.GPU, *gpu.MIGDevice)) {
	for i := range devices {
		g := &devices[i].gpu
		if g.Fault != nil || g.MIG == nil {
			continue
		}
		for j := range g.MIG.Devices {
			if d := &g.MIG.Devices[j]; d.GPUInstance != gpu.NoInstance && d.ComputeInstance != gpu.NoInstance {
				f(g, d)
			}
		}
	}
}
