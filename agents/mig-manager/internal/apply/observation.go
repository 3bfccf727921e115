package apply

import (
	"context"
	"errors"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/partition"
)

// Observation is the observed state of a node's GPUs. Decisions are based on it: the request, its
// plan, and the users that prevent the plan. A change observes its GPUs again, after no other agent
// uses NVML. An Observation belongs to the Applier that made it. Like the Applier, it is not safe for
// concurrent use.
type Observation struct {
	span *nvml.Span
	// view is nil for GPUs that are not on the node.
	view *partition.View
	// changes is the value of Applier.changes during the observation.
	changes int
	gpus    []mig.GPU
	// part is set if gpus has only some GPUs of the node.
	part bool
	// running caches the processes of GPUs.
	running map[gpu.UUID][]mig.Holder
}

// Observe observes the GPUs of the node.
func (a *Applier) Observe(ctx context.Context) (*Observation, error) {
	return nvml.Use(ctx, a.cfg.Session, func(_ context.Context, span *nvml.Span) (*Observation, error) {
		o, err := a.observer(span, nil)
		if err != nil {
			return nil, err
		}
		return o.Observation, nil
	})
}

// Offline is Applier.Plan for GPUs without users that are not on the node, such as the GPUs of a snapshot.
func Offline(gpus []mig.GPU, req Request) (Plan, error) {
	o := &observer{&Applier{}, &Observation{gpus: gpus, running: map[gpu.UUID][]mig.Holder{}}}
	for _, g := range gpus {
		o.running[g.UUID] = nil
	}
	return o.plan(req, nil)
}

// GPUs returns the GPUs of the node, ordered by index. GPUs that fail have a Fault. If the driver
// does not report the board of a GPU, it is the board of the known product.
func (o *Observation) GPUs() []mig.GPU { return slices.Clone(o.gpus) }

// GPUs observes the GPUs, for a caller that does not make decisions.
func (a *Applier) GPUs(ctx context.Context) ([]mig.GPU, error) {
	o, err := a.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return o.gpus, nil
}

// unseen returns an empty Observation.
func (a *Applier) unseen(v *partition.View) *Observation {
	return &Observation{view: v, changes: a.changes, running: map[gpu.UUID][]mig.Holder{}}
}

// observeAll observes all GPUs.
func (o *observer) observeAll() (err error) {
	o.part = false
	if o.gpus, err = o.view.GPUs(); err != nil {
		return err
	}
	for i := range o.gpus {
		o.gpus[i] = o.known(o.gpus[i])
	}
	return nil
}

// observePlanned observes the GPUs that a plan changes. A GPU that is not listed any more gets a fault.
func (o *observer) observePlanned(p Plan) error {
	o.part = true
	for _, c := range p.GPUs {
		if !c.Needed() {
			continue
		}
		g, err := o.view.GPU(c.GPU.UUID)
		if errors.Is(err, partition.ErrNoGPU) {
			g = mig.GPU{Index: c.GPU.Index, UUID: c.GPU.UUID, Fault: &gpu.Fault{Op: "find the GPU", Reason: "NVML does not list it any more"}}
		} else if err != nil {
			return err
		}
		o.gpus = append(o.gpus, o.known(g))
	}
	return nil
}

// known sets the board of a GPU whose driver does not report the board, if its product is known.
func (a *Applier) known(g mig.GPU) mig.GPU {
	if g.Capable && g.Fault == nil && len(g.Board.Profiles) == 0 {
		g.Board, _ = a.cfg.Board(g.PCI, g.MemoryBytes)
	}
	return g
}

// processes returns the processes of a GPU.
func (o *Observation) processes(id gpu.UUID) ([]mig.Holder, error) {
	if list, ok := o.running[id]; ok {
		return list, nil
	}
	list, err := o.view.Processes(id)
	if err == nil {
		o.running[id] = list
	}
	return list, err
}
