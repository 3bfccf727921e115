package inventory

import (
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
)

// Prepared is what must be there before a node's GPUs are offered.
type Prepared struct {
	// DevRoot is the folder on the host under which the device nodes lie.
	DevRoot string
	// ControlNodes are the device nodes that exist and that all GPUs share.
	ControlNodes []string
	// IMEXChannels are those of the config that exist, in order.
	IMEXChannels []int
	// CDIClasses are the classes, beside that of the GPUs, of which the config
	// wants a CDI spec and there is one.
	CDIClasses []string
	// Unresolved are GPUs and MIG devices that work, and that no container can
	// be given all the same, with the reason: they must not be handed out.
	Unresolved map[gpu.UUID]string
}

// Preparer makes it.
type Preparer = observe.Preparer[config.Config, Prepared]

// Unprepared is the Preparer of a process that gives devices to nobody.
type Unprepared = observe.Unprepared[config.Config, Prepared]

// fit returns v without the devices that no container can be given.
func (p Prepared) fit(n *gpu.Node, v health.View) health.View {
	if len(p.Unresolved) == 0 {
		return v
	}
	out := health.View{GPUs: map[gpu.UUID]health.Status{}, Instances: map[health.Instance]health.Status{}}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if reason, ok := p.Unresolved[g.UUID]; ok {
			out.GPUs[g.UUID] = health.Status{Reason: reason}
		}
		if g.MIG == nil {
			continue
		}
		for _, m := range g.MIG.Devices {
			if reason, ok := p.Unresolved[m.UUID]; ok {
				id := health.Instance{GPU: g.UUID, GPUInstance: m.GPUInstance, ComputeInstance: m.ComputeInstance}
				out.Instances[id] = health.Status{Reason: reason}
			}
		}
	}
	// What the driver says of a device is told first.
	addUnfit(out.GPUs, v.GPUs)
	addUnfit(out.Instances, v.Instances)
	return out
}

func addUnfit[K comparable](to, from map[K]health.Status) {
	for id, s := range from {
		if !s.Healthy {
			to[id] = s
		}
	}
}
