// Package inventory keeps the advertised resources of the node up to date. It derives
// resources and health from observations of the node, events and configs, with pure
// packages. It delivers each State to its publisher: the device plugin, the DRA plugin, or
// the supervisor of the MPS daemons.
//
// One loop owns the state: it applies all inputs, and derives the next State.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/record"
	"outrigger.dev/pkg/reconcile"
	"outrigger.dev/pkg/resource"
)

// Recorder records the advertised devices, and why others are not advertised. It must not block.
type Recorder interface {
	Advertised(resource.Set)
	Event(gpu.Event)
	// Waiting records why the GPUs cannot be advertised, or "" if they are advertised.
	Waiting(cause.Code)
	// Configured records that a config was applied, or the error if it was rejected.
	Configured(err error)
}

// Config configures an Inventory.
type Config struct {
	Config config.Config
	Rules  health.Rules
	Source gpu.Source
	// Preparer prepares the node before its GPUs are advertised.
	Preparer Preparer
	// WatchChanges calls changed once at the start, and then after each change on the node
	// that may make a failed driver or Preparer succeed. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	Recorder     Recorder
	// Reporter is nil if reports are not needed.
	Reporter Reporter
	// Claims is nil for a process that does not advertise GPUs.
	Claims Claims
	// Gate is nil if containers need only the GPUs.
	Gate Gate
	// Pins stores which devices are shared. It is nil for a process that does not share GPUs.
	Pins *index.Pins
	// Incidents shares XIDs with the other agents of the node. It may be nil.
	Incidents *record.Record
	Log       *slog.Logger
}

// Inventory keeps the advertised resources of the node up to date.
type Inventory struct {
	cfg      Config
	log      *slog.Logger
	observer *observe.Observer[config.Config, Prepared]
	loop     *reconcile.Loop
	newest   atomic.Pointer[State]
	// notify is called after each new State.
	notify func()

	mu sync.Mutex
	// inputs has a function for each input since the last step, in order.
	inputs []func() error

	// The loop owns the fields below.
	health *health.Machine
	// state is the newest State, and kind is the class of its Trouble.
	state State
	kind  cause.Code
	// layout has the resources of the state's node with its config, without health.
	layout resource.Layout
	// refreshed is the time from health.Next that last caused a refresh.
	refreshed time.Time
}

// New returns an Inventory. It does nothing before Run.
func New(cfg Config) *Inventory {
	v := &Inventory{
		cfg: cfg,
		log: cfg.Log,
		observer: observe.New(observe.Config[config.Config, Prepared]{
			Source: cfg.Source, Preparer: cfg.Preparer, Desired: cfg.Config, WatchChanges: cfg.WatchChanges, Log: cfg.Log,
		}),
		notify: func() {},
		health: health.New(cfg.Rules),
		state:  State{Config: cfg.Config},
	}
	v.newest.Store(&State{Config: cfg.Config})
	v.loop = reconcile.New(reconcile.Config{Name: "inventory", Step: v.step, Failed: v.logClaimError, Log: cfg.Log})
	return v
}

// State returns the newest State.
func (v *Inventory) State() State { return *v.newest.Load() }

// Notify sets the function that is called after each new State. It must not block. Call
// Notify before Run.
func (v *Inventory) Notify(f func()) { v.notify = f }

// Wake derives the State again. Call it when claims of GPUs or the Gate may have changed. It
// does not block.
func (v *Inventory) Wake() { v.loop.Wake() }

// Link requests the links of the GPUs in the next States. It does not block.
func (v *Inventory) Link() { v.observer.Link() }

// Reload reads the node again, and forgets the events that made GPUs unhealthy. It does
// not block.
func (v *Inventory) Reload() {
	v.enqueue(func() error {
		v.log.Info("reloading")
		v.health.Reset()
		v.observer.Reload()
		return nil
	})
}

// Hangs returns an error that wraps gpu.ErrHangs while the driver hangs.
func (v *Inventory) Hangs() error {
	if c, ok := v.cfg.Source.(gpu.Checker); ok {
		return c.Health()
	}
	return nil
}

// Run keeps the inventory up to date until ctx ends.
func (v *Inventory) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return v.observer.Run(ctx) })
	g.Go(func() error { v.receive(ctx); return nil })
	g.Go(func() error { return v.cfg.Incidents.Run(ctx) })
	g.Go(func() error { return v.loop.Run(ctx) })
	return g.Wait()
}

// receive enqueues the observations, events and hangs of the observer.
func (v *Inventory) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case obs := <-v.observer.Observations():
			v.enqueue(func() error { return v.handleObservation(ctx, obs) })
		case ev := <-v.observer.Events():
			v.enqueue(func() error { v.handleEvent(ev); return nil })
		case err := <-v.observer.Hangs():
			v.enqueue(func() error { v.handleHang(err); return nil })
		}
	}
}

// enqueue makes the loop call an input before it derives the next State.
func (v *Inventory) enqueue(input func() error) {
	v.mu.Lock()
	v.inputs = append(v.inputs, input)
	v.mu.Unlock()
	v.loop.Wake()
}

// step applies the inputs, and derives the State.
func (v *Inventory) step(context.Context) (reconcile.Result, error) {
	v.mu.Lock()
	inputs := v.inputs
	v.inputs = nil
	v.mu.Unlock()
	for _, input := range inputs {
		if err := input(); err != nil {
			return reconcile.Result{}, reconcile.Fatal(err)
		}
	}
	v.cfg.Incidents.Save(v.health)
	err := v.publish()
	return reconcile.Result{After: v.refresh()}, err
}

// logClaimError logs why GPUs cannot be claimed.
func (v *Inventory) logClaimError(err error, _ time.Duration) {
	if errors.Is(err, contract.ErrNoRunRoot) {
		v.log.Warn("cannot see whether another agent advertises the same gpus, advertising them and retrying", "err", err)
		return
	}
	v.log.Warn("cannot claim gpus, retrying", "err", err)
}

// refresh reads the node again at the time that health.Next returns, once for each time. It
// returns the duration until that time, or 0 if no refresh is pending.
func (v *Inventory) refresh() time.Duration {
	at, ok := v.health.Next()
	if !ok || at.Equal(v.refreshed) {
		return 0
	}
	if in := time.Until(at); in > 0 {
		return in
	}
	v.refreshed = at
	v.observer.Refresh()
	return 0
}

func (v *Inventory) handleObservation(ctx context.Context, obs observe.Observation[config.Config, Prepared]) error {
	if obs.Err != nil && v.cfg.Config.FailOnInitError && v.state.Node == nil {
		return fmt.Errorf("%w (fail-on-init-error is set)", obs.Err)
	}
	before := v.state.Trouble
	v.state.Trouble, v.kind = obs.Err, kindOf(obs.Err, obs.Node != nil)
	if obs.Node != nil {
		v.cfg.Incidents.Restore(ctx, v.health, obs.Node)
	}
	switch {
	case errors.Is(obs.Err, gpu.ErrNoDriver):
		v.health.DriverGone(obs.Err.Error())
	case obs.Node == nil:
		// Another agent needs NVML for a while, or NVML failed once. The last state of the
		// GPUs still holds.
	case obs.Err == nil:
		v.state.Node, v.state.Config, v.state.Prepared = obs.Node, obs.Desired, obs.Prepared
		v.state.Linked = obs.Linked
		v.arrange()
		v.health.Observe(obs.Node, obs.At)
	case v.state.Node != nil:
		// The node could not be prepared. The resources of the last preparation stay
		// advertised, with their current health.
		v.health.Observe(obs.Node, obs.At)
	}
	v.log.Debug("gpus read", "err", obs.Err)
	v.reportTrouble(before, obs.Err)
	return nil
}

// arrange derives the layout of the state's node. It also stores which devices are shared, so that
// this is recorded before a container can get a device.
func (v *Inventory) arrange() {
	n := *v.state.Node
	if v.cfg.Pins != nil {
		n.Choices = v.cfg.Pins.Choices() // the choices in the snapshot may be older
	}
	v.layout = resource.NewLayout(&n, v.state.Config)
	v.cfg.Pins.Choose(v.layout.Choices())
}

// handleHang handles a driver that begins to hang, or that answers again. While the driver
// hangs, no container can start, so that every GPU is unhealthy.
func (v *Inventory) handleHang(err error) {
	v.state.Hang = err
	if err != nil {
		v.health.Hangs(err.Error())
		v.cfg.Recorder.Waiting(cause.DeviceHang)
		v.report(Report{Kind: cause.GPUsNotOffered, Cause: cause.DeviceHang, Reason: err.Error()})
		v.log.Error("driver hangs, all gpus are unhealthy", "err", err)
	} else {
		v.health.Hangs("")
		v.log.Info("driver answers again")
		v.reportTrouble(nil, v.state.Trouble)
	}
}

func (v *Inventory) handleEvent(ev gpu.Event) {
	counts := v.health.Apply(ev, time.Now())
	v.cfg.Recorder.Event(ev)
	if ev.Kind == gpu.EventXID && !counts {
		v.log.Info("xid ignored", "gpu", ev.GPU, "xid", ev.XID)
	}
	if health.NeedsRefresh(ev) {
		v.observer.Refresh()
	}
}

// publish derives the State, and delivers it. It returns an error if GPUs have to be claimed
// again. Events change only the health of the advertised devices.
func (v *Inventory) publish() (err error) {
	was := v.state.Set
	if v.state.Node != nil {
		view := v.state.Prepared.withUnresolved(v.state.Node, v.health.View())
		v.state.Set, err = v.claim(v.layout.Set(view))
		v.state.Set = v.applyGate(v.state.Set)
		v.cfg.Recorder.Advertised(v.state.Set)
	}
	next := v.state
	v.newest.Store(&next)
	v.notify()
	logChanges(v.log, was, v.state.Set)
	v.report(reports(was, v.state.Set)...)
	return err
}
