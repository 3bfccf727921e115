package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/partition"
	"outrigger.dev/pkg/pci"
)

// Apply makes the changes for a request. It returns an error if it has not changed any GPU, because
// the request is infeasible, a GPU is in use (*InUse) or may be in use (*HoldersUnknown), the lease
// cannot be claimed, or the journal cannot be written. Otherwise, the result has the outcome for each
// GPU, and the error is Result.Err. When ctx ends, Apply does not wait for users any more, but
// performs the remaining steps that are possible.
func (a *Applier) Apply(ctx context.Context, req Request) (Result, error) {
	if req.Seen != nil { // the processes may have changed since the observation
		seen := *req.Seen
		seen.running = map[gpu.UUID][]mig.Holder{}
		req.Seen = &seen
	}
	p, err := a.Plan(ctx, req)
	if err == nil && p.Unknown != nil {
		err = &HoldersUnknown{p.Unknown}
	}
	if err := cmp.Or(err, p.Busy()); err != nil {
		return Result{}, err
	}
	if !p.Needed() {
		r := unchanged(p)
		return r, r.Err()
	}
	var disturbed []gpu.UUID
	for _, g := range p.disturbed() {
		disturbed = append(disturbed, g.UUID)
	}
	return a.runExclusive(ctx, "change of MIG layouts", disturbed, func(o *observer, _ *journal) (Plan, error) {
		if err := o.observePlanned(p); err != nil {
			return Plan{}, err
		}
		again, err := o.plan(req.limitedTo(o.gpus), p.held)
		if err == nil && a.cfg.Containers != nil {
			err = again.checkHoldersKnown(p)
		}
		again.addUnchanged(p)
		return again, errors.Join(err, again.Busy())
	})
}

// limitedTo returns the part of a request for these GPUs.
func (req Request) limitedTo(gpus []mig.GPU) Request {
	all := req.Desired
	req.Desired = map[gpu.UUID]mig.Desired{}
	for _, g := range gpus {
		if d, asked := all[g.UUID]; asked {
			req.Desired[g.UUID] = d
		}
	}
	return req
}

// checkHoldersKnown returns an error if the plan disturbs a GPU that the earlier plan did not
// disturb. The containers that use this GPU were not observed.
func (p Plan) checkHoldersKnown(earlier Plan) error {
	for _, c := range p.GPUs {
		if c.disturbs() && !slices.ContainsFunc(earlier.GPUs, func(o Change) bool { return o.GPU.UUID == c.GPU.UUID && o.disturbs() }) {
			return &HoldersUnknown{fmt.Errorf("GPU %d (%s) has changed since its change was planned", c.GPU.Index, c.GPU.UUID)}
		}
	}
	return nil
}

// addUnchanged adds the GPUs that the earlier plan does not change.
func (p *Plan) addUnchanged(earlier Plan) {
	for _, c := range earlier.GPUs {
		if !slices.ContainsFunc(p.GPUs, func(o Change) bool { return o.GPU.UUID == c.GPU.UUID }) && !c.Needed() {
			p.GPUs = append(p.GPUs, c)
		}
	}
	p.Faulty = append(p.Faulty, earlier.Faulty...)
	slices.SortFunc(p.GPUs, func(a, b Change) int { return a.GPU.Index - b.GPU.Index })
}

// Recover finishes the changes in the journal that an earlier process has not finished. A GPU gets
// the desired state if the request desires the same as the earlier one, and otherwise its previous
// state. The error is Result.Err, or says why no GPU was changed. Without a journal, Recover does
// nothing.
func (a *Applier) Recover(ctx context.Context, req Request) (Result, error) {
	j, err := store(a.cfg.StateDir).load(a.cfg.Log)
	if err != nil || len(j.GPUs) == 0 {
		return Result{}, err
	}
	held, err := a.held(ctx, req.Seen)
	if err != nil {
		return Result{}, fmt.Errorf("recover MIG layouts: find the users of the MIG devices: %w", err)
	}
	// Do not claim the lease for a recovery that is not possible now: the other agents would close
	// their handles.
	quiet := *a
	quiet.cfg.Log = slog.New(slog.DiscardHandler)
	if _, err := nvml.Use(ctx, a.cfg.Session, func(_ context.Context, span *nvml.Span) (Plan, error) {
		o, err := quiet.observer(span, req.Seen)
		if err != nil {
			return Plan{}, err
		}
		return o.recover(&j, req.Desired, held)
	}); err != nil {
		return Result{}, err
	}
	return a.runExclusive(ctx, "recovery of MIG layouts", j.uuids(), func(o *observer, j *journal) (Plan, error) {
		if err := o.observeAll(); err != nil {
			return Plan{}, err
		}
		return o.recover(j, req.Desired, held)
	})
}

// held returns the containers that use GPUs.
func (a *Applier) held(ctx context.Context, seen *Observation) (map[gpu.UUID][]mig.Holder, error) {
	if a.cfg.Containers == nil {
		return nil, nil
	}
	if seen == nil {
		var err error
		if seen, err = a.Observe(ctx); err != nil {
			return nil, err
		}
	}
	return a.cfg.Containers(ctx, slices.DeleteFunc(seen.GPUs(), func(g mig.GPU) bool { return g.Fault != nil }))
}

func unchanged(p Plan) Result {
	r := Result{slices.Clone(p.Faulty)}
	for _, c := range p.GPUs {
		r.GPUs = append(r.GPUs, Outcomes{Index: c.GPU.Index, UUID: c.GPU.UUID, Outcome: Unchanged})
	}
	r.sort()
	return r
}

// runExclusive claims the lease, calls f to plan, and executes the plan, which may destroy instances of disturbed.
func (a *Applier) runExclusive(ctx context.Context, reason string, disturbed []gpu.UUID, f func(*observer, *journal) (Plan, error)) (r Result, err error) {
	grant, err := a.cfg.Session.Claim(ctx, Owner, reason, a.cfg.Limit)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", reason, err)
	}
	ended := a.announce(disturbed)
	defer func() {
		err = errors.Join(err, grant.Release())
		ended(context.WithoutCancel(ctx))
	}()
	j, err := store(a.cfg.StateDir).load(a.cfg.Log)
	if err != nil {
		return Result{}, err
	}
	// A change that has begun is finished, even after SIGTERM.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Limit)
	defer cancel()
	a.changes++
	t := &transaction{Applier: a, grant: grant, patient: ctx, journal: j}
	r, err = t.run(work, func(v *partition.View) (Plan, error) { return f(&observer{a, a.unseen(v)}, &t.journal) })
	if err != nil {
		return Result{}, err
	}
	a.makeDevices()
	return r, r.Err()
}

// announce tells Config.Changing about a change. It returns a function to call after the change.
func (a *Applier) announce(gpus []gpu.UUID) (ended func(context.Context)) {
	if a.cfg.Changing == nil || len(gpus) == 0 {
		return func(context.Context) {}
	}
	return a.cfg.Changing(gpus)
}

// makeDevices creates the device nodes of the current MIG devices, before the other agents need them.
// The driver loader creates the nodes that all GPUs share, and the container toolkit creates and
// removes the links in /dev/char.
func (a *Applier) makeDevices() {
	d := a.cfg.Devices
	if d.Dev == "" {
		return
	}
	wanted, err := devnode.Driver(d.Proc).GPUs()
	nodes, errNodes := devnode.Nodes(d.Dev, wanted)
	if err := errors.Join(err, errNodes, nodes.Apply(), devnode.Left(d.Dev, wanted)); err != nil {
		a.cfg.Log.Warn("cannot make all device nodes of the mig devices", "err", err)
	}
}

// granted calls f while NVML is initialized under the grant.
func granted[T any](ctx context.Context, t *transaction, f func(*partition.View) (T, error)) (T, error) {
	return nvml.UseGranted(ctx, t.cfg.Session, t.grant, func(_ context.Context, span *nvml.Span) (T, error) {
		return f(t.reader.View(span))
	})
}

// recover plans the change of each GPU in the journal to its previous or desired state. It removes
// GPUs from the journal that are in one of these states, or in the state in wanted. It also removes
// GPUs that are not on the node any more, because a GPU that returns has no instances. GPUs that NVML
// only hides from this process stay in the journal.
func (o *observer) recover(j *journal, wanted map[gpu.UUID]mig.Desired, held map[gpu.UUID][]mig.Holder) (Plan, error) {
	var p Plan
	var errs []error
	for _, e := range slices.Clone(j.GPUs) {
		if o.gone(e.UUID) {
			if err := o.checkVisible(); err != nil {
				errs = append(errs, fmt.Errorf("recover MIG layout of GPU %d (%s): %w; it stays in the journal", e.Index, e.UUID, err))
				continue
			}
			o.cfg.Log.Warn("a gpu with an unfinished mig change is no longer on the node, removing it from the journal", "gpu", e.Index, "uuid", e.UUID)
			j.drop(e.UUID)
			continue
		}
		at := slices.IndexFunc(o.gpus, func(g mig.GPU) bool { return g.UUID == e.UUID && g.Fault == nil })
		if at < 0 {
			errs = append(errs, fmt.Errorf("recover MIG layout of GPU %d (%s): it does not answer; it stays in the journal", e.Index, e.UUID))
			continue
		}
		g := o.gpus[at]
		target := e.Before
		d, asked := wanted[e.UUID]
		if g.State.Equal(e.Goal) || g.State.Equal(e.Before) || asked && satisfies(g.State, d) {
			target = g.State
		} else if e.Desired == nil || asked && d.Equal(*e.Desired) {
			target = e.Goal
		}
		c, err := o.planChange(g, target)
		if err != nil {
			errs = append(errs, fmt.Errorf("recover MIG layout of GPU %d (%s): %w", g.Index, g.UUID, err))
			continue
		}
		if c.addHolders(held[g.UUID]); len(c.Holders) > 0 {
			errs = append(errs, &InUse{GPU: g.UUID, Index: g.Index, Holders: c.Holders})
			continue
		}
		c.desired = e.Desired
		p.GPUs = append(p.GPUs, c)
	}
	err := o.addPeers(&p)
	p.addHolders(held)
	if err := errors.Join(err, p.Busy()); err != nil {
		return Plan{}, errors.Join(append(errs, err)...)
	}
	if len(p.GPUs) == 0 {
		return Plan{}, errors.Join(errs...)
	}
	for _, err := range errs {
		o.cfg.Log.Warn("cannot recover a mig layout now, keeping it in the journal", "err", err)
	}
	return p, nil
}

// gone reports whether a GPU is not on the node. A GPU whose UUID cannot be read may be this GPU.
func (o *observer) gone(id gpu.UUID) bool {
	return !slices.ContainsFunc(o.gpus, func(g mig.GPU) bool { return g.UUID == id || g.UUID == "" })
}

// checkVisible returns an error if it is possible that NVML does not list all GPUs of the node for
// this process, as in a container with some of the GPUs.
func (o *observer) checkVisible() error {
	devices, err := pci.Scan(o.cfg.Sys)
	if err != nil {
		return fmt.Errorf("check whether it is on the node: %w", err)
	}
	bound := 0
	for _, d := range devices {
		if d.GPU() && d.Driver == "nvidia" {
			bound++
		}
	}
	if len(o.gpus) >= bound {
		return nil
	}
	return fmt.Errorf("NVML shows this process only %d of the %d GPUs of the node, without this GPU: run mig-manager apply where all GPUs are visible, for example on the host", len(o.gpus), bound)
}

// satisfies reports whether a GPU has the desired state.
func satisfies(s mig.State, d mig.Desired) bool {
	return s.Pending == d.Enabled && s.Desired().Equal(d) && !s.Layout.Undivided()
}
