package inventory

import (
	"context"
	"reflect"
	"time"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/pkg/gpu"
)

// recheck is how often the driver's files are looked at.
const recheck = 2 * time.Second

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

// Preparer makes what must be there before a node's GPUs are offered.
type Preparer interface {
	// Scan reads what does not depend on the GPUs, while those are read. The
	// function that it returns does the rest. Neither is called again before
	// the other has returned.
	Scan(config.Config) func(*gpu.Node) (Prepared, error)
	// Outdated reports whether what the last Scan read has changed since. It
	// costs little, and does not ask the driver.
	Outdated() bool
}

// Unprepared is the Preparer of a process that gives devices to nobody.
type Unprepared struct{}

var _ Preparer = Unprepared{}

// Scan has nothing to read.
func (Unprepared) Scan(config.Config) func(*gpu.Node) (Prepared, error) {
	return func(*gpu.Node) (Prepared, error) { return Prepared{}, nil }
}

// Outdated is never so.
func (Unprepared) Outdated() bool { return false }

// rest waits for a reason to look again after a look that went well, and
// returns false when ctx ends. A change of the driver's files is no reason to
// ask the driver: only what was prepared is prepared again.
func (o *observer) rest(ctx context.Context) bool {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-o.again:
			return true
		case <-o.afresh:
			o.done = nil
			return true
		case <-ticker.C:
		}
		if !o.preparer.Outdated() {
			continue
		}
		was := *o.done
		obs := o.prepare(was, o.preparer.Scan(was.config))
		if obs.err != nil || !reflect.DeepEqual(was.prepared, obs.prepared) {
			o.renewed = &obs
			return true
		}
	}
}

// prepare makes what must be there before the GPUs that seen shows are offered,
// and returns seen with that.
func (o *observer) prepare(seen observation, rest func(*gpu.Node) (Prepared, error)) observation {
	seen.prepared, seen.err = rest(seen.node)
	o.done = nil
	if seen.err == nil {
		o.done = &seen
	}
	return seen
}

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
