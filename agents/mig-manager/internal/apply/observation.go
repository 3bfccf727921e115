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

// Observation is what the GPUs of a node were when they were observed. A decision starts from
// one: what to ask of the GPUs, what that changes, and who is in the way. A change observes what
// it touches again, once no other agent uses NVML. An Observation belongs to the Applier that
// made it, and like that is not safe for concurrent use.
type Observation struct {
	span *nvml.Span
	// view is nil for GPUs that are not there.
	view *partition.View
	// changes is how many changes the Applier had begun.
	changes int
	gpus    []mig.GPU
	// part is set if gpus are not all of the node.
	part bool
	// running are the processes of the GPUs that were asked for them.
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

// Offline is Applier.Plan for GPUs that are not there, such as the GPUs of a snapshot. They have no holders.
func Offline(gpus []mig.GPU, req Request) (Plan, error) {
	o := &observer{&Applier{}, &Observation{gpus: gpus, running: map[gpu.UUID][]mig.Holder{}}}
	for _, g := range gpus {
		o.running[g.UUID] = nil
	}
	return o.plan(req, nil)
}

// GPUs returns the GPUs of the node, ordered by index. Those that fail have a Fault. A GPU of which
// the driver does not report what it can be divided into has what is known of the product.
func (o *Observation) GPUs() []mig.GPU { return slices.Clone(o.gpus) }

// GPUs is Observe for who does not decide anything by it.
func (a *Applier) GPUs(ctx context.Context) ([]mig.GPU, error) {
	o, err := a.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return o.gpus, nil
}

// unseen returns an Observation of nothing yet.
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

// observePlanned observes the GPUs that a plan changes. One that is not there any more has a fault.
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

// known returns a GPU with what is known of the product's board, if the driver does not report it.
func (a *Applier) known(g mig.GPU) mig.GPU {
	if g.Capable && g.Fault == nil && len(g.Board.Profiles) == 0 {
		g.Board, _ = a.cfg.Board(g.PCI, g.MemoryBytes)
	}
	return g
}

// processes returns the processes on a GPU.
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
