package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/partition"
)

// Plan returns the changes for a request, without making them. If the request is infeasible on a GPU,
// the error wraps a *plan.Infeasible for this GPU.
func (a *Applier) Plan(ctx context.Context, req Request) (Plan, error) {
	p, err := a.plan(ctx, req, nil)
	if err != nil || a.cfg.Containers == nil || !p.Disturbs() {
		return p, err
	}
	held, unknown := a.cfg.Containers(ctx, p.disturbed())
	if len(held) > 0 { // the layout may be a different one now
		p, err = a.plan(ctx, req, held)
	}
	p.Unknown = unknown
	return p, err
}

// plan is Plan with known containers: the parameter held has the containers that hold GPUs.
func (a *Applier) plan(ctx context.Context, req Request, held map[gpu.UUID][]mig.Holder) (Plan, error) {
	return nvml.Use(ctx, a.cfg.Session, func(_ context.Context, span *nvml.Span) (Plan, error) {
		o, err := a.observer(span, req.Seen)
		if err != nil {
			return Plan{}, err
		}
		return o.plan(req, held)
	})
}

// observer plans with the observed state of a node.
type observer struct {
	*Applier
	*Observation
}

// observer returns an observer for seen, if that is still valid. Otherwise, it observes the node.
func (a *Applier) observer(span *nvml.Span, seen *Observation) (*observer, error) {
	if seen != nil && seen.span == span && seen.changes == a.changes {
		return &observer{a, seen}, nil
	}
	o := &observer{a, a.unseen(a.reader.View(span))}
	o.span = span
	return o, o.observeAll()
}

func (o *observer) plan(req Request, held map[gpu.UUID][]mig.Holder) (Plan, error) {
	p := Plan{held: held}
	var errs []error
	var refused refusals
	for id := range req.Desired {
		if !slices.ContainsFunc(o.gpus, func(g mig.GPU) bool { return g.UUID == id }) {
			errs = append(errs, fmt.Errorf("plan MIG layout of GPU %s: %w", id, partition.ErrNoGPU))
		}
	}
	for _, g := range o.gpus {
		d, asked := req.Desired[g.UUID]
		if !asked || g.UUID == "" {
			continue
		}
		c, err := o.change(g, d, req, held[g.UUID])
		if err := unanswered(g, err); err != nil {
			p.Faulty = append(p.Faulty, Outcomes{Index: g.Index, UUID: g.UUID, Outcome: Unreadable, Err: err})
			continue
		}
		refused.add(g, err)
		c.desired = &d
		p.GPUs = append(p.GPUs, c)
	}
	if err := errors.Join(append(errs, refused.err())...); err != nil {
		return Plan{}, err
	}
	err := o.addPeers(&p)
	p.addHolders(held)
	return p, err
}

// unanswered returns an error for a GPU with a fault, and for a failed call of NVML. Such a GPU
// does not reject the request for the others.
func unanswered(g mig.GPU, err error) error {
	if _, failed := errors.AsType[*nvml.Error](err); g.Fault == nil && (!failed || nvml.DriverGone(err)) {
		return nil
	}
	return fmt.Errorf("GPU %d (%s) does not answer, leaving it unchanged: %w: reset or repair it", g.Index, g.UUID, err)
}

// change returns the change of a GPU for a request.
func (o *observer) change(g mig.GPU, d mig.Desired, req Request, held []mig.Holder) (Change, error) {
	if g.Fault != nil {
		return Change{}, faultError(g)
	}
	if !g.Capable {
		if d.Enabled {
			return Change{}, fmt.Errorf("%s has no MIG mode", g.Name)
		}
		return Change{GPU: g}, nil
	}
	target := mig.State{Enabled: d.Enabled, Pending: d.Enabled}
	switches := g.Enabled != d.Enabled
	switch {
	case switches && req.SkipReset && g.NeedsReset:
		target.Enabled = g.Enabled
	case req.ModeOnly:
		if !switches {
			target.Layout = g.Layout
		}
	case d.Enabled && req.Layouts[g.UUID] != nil:
		target.Layout = slices.Clone(req.Layouts[g.UUID])
		target.Layout.Sort()
		if err := boardBesideUnlisted(g).Fits(target.Layout); err != nil {
			return Change{}, explainUnlisted(g, err, func(b mig.Board) error { return b.Fits(target.Layout) })
		}
	case d.Enabled:
		var err error
		if target.Layout, err = o.target(&g, d.Devices, held); err != nil {
			return Change{}, err
		}
	}
	return o.planChange(g, target)
}

// faultError returns the error for a GPU that cannot be read.
func faultError(g mig.GPU) error { return fmt.Errorf("%s: %s", g.Fault.Op, g.Fault.Reason) }

// target returns the desired layout of a GPU with MIG mode on. The parameter held has users that the
// driver does not list. If the driver shows that the GPU shares its engines, target sets
// SharedEngines of the GPU's board.
func (o *observer) target(g *mig.GPU, want map[gpu.Profile]int, held []mig.Holder) (mig.Layout, error) {
	if len(want) > 0 && len(g.Board.Profiles) == 0 {
		return nil, fmt.Errorf("the driver does not report the profiles of %s while its MIG mode is off: turn only the mode on first (--mode-only)", g.Name)
	}
	var failed error
	busy := sync.OnceValue(func() (list []mig.Holder) {
		list, failed = o.processes(g.UUID)
		return slices.Concat(list, held)
	})
	inUse := func(i mig.Instance) bool {
		return slices.ContainsFunc(busy(), func(h mig.Holder) bool { return uses(h, i) })
	}
	layout, err := fit(*g, want, inUse)
	if err != nil && o.sharesEngines(*g, want) {
		g.Board.SharedEngines = true
		layout, err = fit(*g, want, inUse)
	}
	return layout, errors.Join(failed, err)
}

// uses reports whether h uses a compute instance of i.
func uses(h mig.Holder, i mig.Instance) bool {
	return h.GPUInstance == i.ID && (h.ComputeInstance == gpu.NoInstance ||
		slices.ContainsFunc(i.Compute, func(c mig.Compute) bool { return c.ID == h.ComputeInstance }))
}

// changeTo returns the change of a GPU to a state, without the holders.
func changeTo(g mig.GPU, target mig.State) Change {
	c := Change{GPU: g, Target: target, Mode: g.Enabled != target.Enabled || g.Pending != target.Pending}
	c.Reset = g.Enabled != target.Enabled && g.NeedsReset
	switch {
	case g.Enabled != target.Enabled:
		c.Steps = append(plan.Steps(g.Board, g.Layout, nil), plan.Steps(g.Board, nil, target.Layout)...)
	case g.Enabled:
		c.Steps = plan.Steps(boardBesideUnlisted(g), g.Layout, target.Layout)
	}
	return c
}

// planChange returns the change of a GPU to a state, with the processes that prevent it.
func (o *observer) planChange(g mig.GPU, target mig.State) (Change, error) {
	c := changeTo(g, target)
	if err := c.checkUnlisted(); err != nil {
		return c, err
	}
	if !c.disturbs() {
		return c, nil
	}
	list, err := o.processes(g.UUID)
	if err != nil {
		return c, err
	}
	c.Holders = o.cfg.Processes.addOwners(g, slices.DeleteFunc(slices.Clone(list), c.keepsInstancesOf))
	return c, nil
}

// disturbs reports whether the change can destroy something that a container or process uses.
func (c Change) disturbs() bool {
	return c.Mode || c.Reset || slices.ContainsFunc(c.Steps, func(s mig.Step) bool { return s.Op == mig.DestroyCompute || s.Op == mig.DestroyInstance })
}

// disturbed returns the GPUs with a change that can destroy something that a container or process uses.
func (p Plan) disturbed() (gpus []mig.GPU) {
	for _, c := range p.GPUs {
		if c.disturbs() {
			gpus = append(gpus, c.GPU)
		}
	}
	return gpus
}

// keepsInstancesOf reports whether the change keeps the instances that h uses.
func (c Change) keepsInstancesOf(h mig.Holder) bool {
	if c.Reset || c.GPU.Enabled != c.Target.Enabled {
		return false
	}
	return !slices.ContainsFunc(c.GPU.Layout, func(i mig.Instance) bool {
		if i.ID != h.GPUInstance {
			return false
		}
		at := slices.IndexFunc(c.Target.Layout, i.Same)
		if at < 0 {
			return true
		}
		return slices.ContainsFunc(i.Compute, func(of mig.Compute) bool {
			return of.ID == h.ComputeInstance && !slices.ContainsFunc(c.Target.Layout[at].Compute, of.Equal)
		})
	})
}

// addHolders adds the containers that prevent the change. A container replaces the processes of its pod.
func (c *Change) addHolders(held []mig.Holder) {
	held = slices.DeleteFunc(slices.Clone(held), c.keepsInstancesOf)
	c.Holders = append(held, slices.DeleteFunc(c.Holders, func(p mig.Holder) bool {
		return p.Pod.Name != "" && slices.ContainsFunc(held, func(h mig.Holder) bool { return h.Pod == p.Pod })
	})...)
}

// addHolders calls Change.addHolders for all GPUs.
func (p Plan) addHolders(held map[gpu.UUID][]mig.Holder) {
	for i := range p.GPUs {
		p.GPUs[i].addHolders(held[p.GPUs[i].GPU.UUID])
	}
}

// addPeers adds the GPUs that have to be reset together with GPUs of the plan. On Ampere boards,
// these are the GPUs behind the same NVSwitches. They get their modes and layouts back.
func (o *observer) addPeers(p *Plan) error {
	var fabric []mig.GPU
	resets := slices.ContainsFunc(p.GPUs, func(c Change) bool { return c.Reset && o.switched(c.GPU) })
	if !resets {
		return nil
	}
	if o.part {
		if err := o.observeAll(); err != nil {
			return err
		}
	}
	for _, g := range o.gpus {
		if g.UUID != "" && o.switched(g) {
			fabric = append(fabric, g)
		}
	}
	var errs []error
	for _, g := range fabric {
		at := slices.IndexFunc(p.GPUs, func(c Change) bool { return c.GPU.UUID == g.UUID })
		if at < 0 {
			p.GPUs = append(p.GPUs, Change{GPU: g, Target: mig.State{Enabled: g.Enabled, Pending: g.Enabled, Layout: g.Layout}})
			at = len(p.GPUs) - 1
		}
		c := &p.GPUs[at]
		if g.Fault != nil {
			errs = append(errs, fmt.Errorf("plan reset of GPU %d (%s), which is on an NVLink fabric with the others: %w", g.Index, g.UUID, faultError(g)))
			continue
		}
		list, err := o.processes(g.UUID)
		if err != nil {
			errs = append(errs, err)
		}
		c.Reset, c.fabric, c.Holders = true, true, o.cfg.Processes.addOwners(g, list)
		if err := c.checkUnlisted(); err != nil {
			errs = append(errs, fmt.Errorf("plan reset of GPU %d (%s), which is on an NVLink fabric with the others: %w", g.Index, g.UUID, err))
		}
		c.Steps = append(plan.Steps(g.Board, g.Layout, nil), plan.Steps(c.GPU.Board, nil, c.Target.Layout)...)
	}
	slices.SortFunc(p.GPUs, func(a, b Change) int { return a.GPU.Index - b.GPU.Index })
	return errors.Join(errs...)
}

// switched reports whether a GPU is connected to NVSwitches. It returns false if that cannot be read.
func (o *observer) switched(g mig.GPU) bool {
	if g.UUID == "" || o.view == nil {
		return false
	}
	yes, err := o.view.Switched(g.UUID)
	return err == nil && yes
}
