package inventory

import (
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
)

// Prepared is the result of the preparation of a node. GPUs are advertised only after it.
type Prepared struct {
	// DevRoot is the folder on the host that contains dev/nvidia*.
	DevRoot string
	// ControlNodes has the existing device nodes that all GPUs share.
	ControlNodes []string
	// IMEXChannels has the channels of the config that exist, in order.
	IMEXChannels []int
	// CDIClasses has the classes of optional hardware in the config that have a CDI spec.
	CDIClasses []string
	// Unresolved has the GPUs and MIG devices that work but cannot be passed to a container,
	// with the reason. They must not be allocated.
	Unresolved map[gpu.UUID]string
}

// Preparer prepares a node, and returns a Prepared.
type Preparer = observe.Preparer[config.Config, Prepared]

// Unprepared is the Preparer of a process that passes no devices to containers.
type Unprepared = observe.Unprepared[config.Config, Prepared]

// withUnresolved returns the view v with all unresolved devices marked as unhealthy.
func (p Prepared) withUnresolved(n *gpu.Node, v health.View) health.View {
	if len(p.Unresolved) == 0 {
		return v
	}
	out := health.View{GPUs: map[gpu.UUID]health.Status{}, Instances: map[health.Instance]health.Status{}}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if reason, ok := p.Unresolved[g.UUID]; ok {
			out.GPUs[g.UUID] = health.Status{Kind: cause.DeviceUnprepared, Reason: reason}
		}
		if g.MIG == nil {
			continue
		}
		for _, m := range g.MIG.Devices {
			if reason, ok := p.Unresolved[m.UUID]; ok {
				id := health.Instance{GPU: g.UUID, GPUInstance: m.GPUInstance, ComputeInstance: m.ComputeInstance}
				out.Instances[id] = health.Status{Kind: cause.DeviceUnprepared, Reason: reason}
			}
		}
	}
	// The driver's reason for an unhealthy device takes precedence.
	addUnhealthy(out.GPUs, v.GPUs)
	addUnhealthy(out.Instances, v.Instances)
	return out
}

func addUnhealthy[K comparable](to, from map[K]health.Status) {
	for id, s := range from {
		if !s.Healthy {
			to[id] = s
		}
	}
}
