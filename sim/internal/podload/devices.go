package podload

import (
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/sim/internal/state"
)

// devices returns the GPUs and MIG devices of a node, for the names that device plugins and drivers
// give them.
func devices(snap state.Snapshot) *gpu.Node {
	n := &gpu.Node{}
	for _, g := range snap.GPUs {
		of := gpu.GPU{Index: g.Index, UUID: gpu.UUID(g.UUID), Minor: g.Minor}
		if g.MIG != nil {
			of.MIG = &gpu.MIG{Enabled: g.MIG.Enabled}
			for _, gi := range g.MIG.GPUInstances {
				for _, ci := range gi.ComputeInstances {
					of.MIG.Devices = append(of.MIG.Devices, gpu.MIGDevice{
						UUID: gpu.UUID(ci.UUID), GPUInstance: uint32(gi.ID), ComputeInstance: uint32(ci.ID), //nolint:gosec // small
						Placement: gpu.Placement{Start: gi.Start, Size: gi.Size},
					})
				}
			}
		}
		n.GPUs = append(n.GPUs, of)
	}
	return n
}
