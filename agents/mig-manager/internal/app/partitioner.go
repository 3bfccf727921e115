package app

import (
	"context"
	"errors"
	"fmt"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// partitioner is an Applier in the terms of the manager. A decision begins with Read: what that
// observes is what the plans start from, until the next one.
type partitioner struct {
	*apply.Applier
	// holdings returns the MIG devices and GPUs that containers hold.
	holdings func(context.Context) (map[gpu.UUID][]users.Holding, error)
	seen     *apply.Observation
	// held is what the last plan spares.
	held apply.Held
}

var _ manager.GPUs = (*partitioner)(nil)

// Read is that of manager.GPUs.
func (p *partitioner) Read(ctx context.Context) ([]mig.GPU, error) {
	var err error
	if p.seen, err = p.Observe(ctx); err != nil {
		return nil, err
	}
	return p.seen.GPUs(), nil
}

// Plan is that of manager.GPUs. It asks for what containers hold if anything is destroyed. Without
// an answer, nothing is changed: see manager.Observation.Unknown.
func (p *partitioner) Plan(ctx context.Context, wish manager.Wish) (manager.Change, error) {
	p.held = nil
	change, err := p.plan(ctx, wish)
	if err == nil && change.Destroys() {
		if p.held, _ = p.holders(ctx); len(p.held) > 0 {
			return p.plan(ctx, wish)
		}
	}
	return change, err
}

func (p *partitioner) plan(ctx context.Context, wish manager.Wish) (manager.Change, error) {
	plan, err := p.Applier.Plan(ctx, p.request(wish))
	if err != nil {
		return manager.Change{}, err
	}
	return changeOf(plan), plan.Err()
}

// Apply is that of manager.GPUs.
func (p *partitioner) Apply(ctx context.Context, wish manager.Wish) error {
	result, err := p.Applier.Apply(ctx, p.request(wish))
	return failure(result, err)
}

func (p *partitioner) request(wish manager.Wish) apply.Request {
	return apply.Request{Seen: p.seen, Desired: wish, Held: p.held}
}

// Recover is that of manager.Config. What containers hold is spared.
func (p *partitioner) Recover(ctx context.Context, wish manager.Wish) error {
	result, err := p.Applier.Recover(ctx, wish, p.holders)
	return failure(result, err)
}

// holders returns the holdings as users that the driver does not know.
func (p *partitioner) holders(ctx context.Context) (apply.Held, error) {
	all, err := p.holdings(ctx)
	out := apply.Held{}
	for id, holdings := range all {
		for _, h := range holdings {
			out[id] = append(out[id], apply.Holder{
				Process:     procowner.Process{Pod: procowner.Pod{Namespace: h.Namespace, Name: h.Pod}},
				GPUInstance: h.GPUInstance, ComputeInstance: h.ComputeInstance,
			})
		}
	}
	return out, err
}

// changeOf returns what the manager has to know of a plan.
func changeOf(p apply.Plan) manager.Change {
	var out manager.Change
	for _, c := range p.GPUs {
		if !c.Needed() {
			continue
		}
		g := manager.GPUChange{Index: c.GPU.Index, UUID: c.GPU.UUID, Mode: c.Mode || c.Reset, Reset: c.Reset}
		for _, s := range c.Steps {
			if s.Op == mig.DestroyCompute {
				g.Goes = append(g.Goes, destroyed(c.GPU.Layout, s)...)
			}
		}
		out.GPUs = append(out.GPUs, g)
		for _, h := range c.Holders {
			out.Holders = append(out.Holders, userOf(c.GPU, h))
		}
	}
	return out
}

// destroyed returns the MIG device that a step destroys, by the numbers that NVML has for it.
func destroyed(l mig.Layout, s mig.Step) []manager.Device {
	for _, i := range l {
		if i.Profile != s.Profile || i.Placement != s.Placement {
			continue
		}
		for _, c := range i.Compute {
			if c.Equal(s.Compute) {
				return []manager.Device{{GPUInstance: i.ID, ComputeInstance: c.ID}}
			}
		}
	}
	return nil
}

// userOf returns a process that uses a GPU as a user.
func userOf(g mig.GPU, h apply.Holder) manager.User {
	u := manager.User{
		Namespace: h.Pod.Namespace, Pod: h.Pod.Name, PID: h.PID, Unit: h.Owner.Unit, GPU: g.Index,
	}
	for _, i := range g.Layout {
		if i.ID == h.GPUInstance {
			u.Device = i.Profile.String()
		}
	}
	return u
}

// failure returns the error of an attempt in the terms of the manager: one that is in use has the
// users of all GPUs.
func failure(r apply.Result, err error) error {
	if needsReboot(r) {
		return fmt.Errorf("%w: %w", manager.ErrNeedsReboot, err)
	}
	busy := &manager.Busy{}
	for _, used := range inUse(err) {
		for _, h := range used.Holders {
			busy.Users = append(busy.Users, userOf(mig.GPU{Index: used.Index}, h))
		}
	}
	if len(busy.Users) == 0 {
		return err
	}
	return busy
}

// inUse returns what an error wraps of each GPU that is in use.
func inUse(err error) []*apply.InUse {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *apply.InUse:
		return []*apply.InUse{e}
	case interface{ Unwrap() []error }:
		var out []*apply.InUse
		for _, one := range e.Unwrap() {
			out = append(out, inUse(one)...)
		}
		return out
	default:
		if err = errors.Unwrap(err); err == nil {
			return nil
		}
		return inUse(err)
	}
}

// needsReboot reports whether a reboot is all that is missing. It is not while another GPU is in
// use, or has failed: who uses it would be ended.
func needsReboot(r apply.Result) bool {
	some := false
	for _, o := range r.GPUs {
		if o.Err != nil && o.Outcome != apply.NeedsReboot {
			return false
		}
		some = some || o.Outcome == apply.NeedsReboot
	}
	return some
}
