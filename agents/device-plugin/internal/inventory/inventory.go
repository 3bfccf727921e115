// Package inventory keeps what the node advertises up to date. It takes observations
// of the node, events and new configs, derives resources and health from them with
// pure packages, and delivers each State to its publisher: the device plugin, the DRA
// plugin, or the supervisor of the MPS daemons.
//
// One goroutine owns the state; it waits for nothing but its inputs.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/resource"
)

// Recorder records what is advertised, and why not more. It must not block.
type Recorder interface {
	Advertised(resource.Set)
	Event(gpu.Event)
	// Waiting records why the GPUs cannot be advertised, empty if they are.
	Waiting(health.Kind)
	// Configured records that a config was applied, or why it was not.
	Configured(err error)
}

// Config configures an Inventory.
type Config struct {
	Config config.Config
	Rules  health.Rules
	Source gpu.Source
	// Preparer makes what must exist before the GPUs of a node are advertised.
	Preparer Preparer
	// WatchChanges calls changed once at first, and then for each change on the
	// node after which a driver that did not answer, or a Preparer that failed, may
	// succeed. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	Recorder     Recorder
	// Reporter is nil if nobody reads reports.
	Reporter Reporter
	// Owner is nil for a process that advertises nothing itself.
	Owner Owner
	// Gate is nil if containers need nothing but the GPUs.
	Gate Gate
	Log  *slog.Logger
}

// Inventory is what the node advertises, and why.
type Inventory struct {
	cfg      Config
	log      *slog.Logger
	observer *observe.Observer[config.Config, Prepared]
	reload   chan struct{}
	choices  choices
	// chosen has a signal when there is something in choices.
	chosen chan struct{}
	states pace.Latest[State]

	// What follows is owned by the goroutine of Run.
	health *health.Machine
	// state is the newest State, and kind the class of its Trouble.
	state State
	kind  health.Kind
	// layout is what the state's node advertises with its config, without health.
	layout resource.Layout
	// refresh rings when the node is to be read again without an event.
	refresh *alarm
}

// State is what is advertised at one moment. It is never changed.
type State struct {
	// Node is what Config applies to, and Prepared was made for both. It is nil
	// before the first observation that succeeded.
	Node     *gpu.Node
	Config   config.Config
	Prepared Prepared
	Set      resource.Set
	// Linked is set if Node has its links, as far as they can be read: see Link.
	Linked bool
	// Trouble is why the node cannot be advertised as it is.
	Trouble error
	// Hang is set while the driver hangs.
	Hang error
}

var errStarting = errors.New("start: the GPUs have not been read yet")

// Unusable returns why there are no devices to advertise, nil if there are.
func (s State) Unusable() error {
	switch {
	case s.Hang != nil:
		return s.Hang
	case s.Node == nil && s.Trouble == nil:
		return errStarting
	case s.Node == nil, errors.Is(s.Trouble, gpu.ErrNoDriver):
		return s.Trouble
	case len(s.Set.Resources) == 0:
		return errors.New("advertise GPUs: no GPU of this node can be advertised; the log has the reason for each")
	}
	return nil
}

// New returns an Inventory. It does nothing before Run.
func New(cfg Config) *Inventory {
	return &Inventory{
		cfg: cfg,
		log: cfg.Log,
		observer: observe.New(observe.Config[config.Config, Prepared]{
			Source: cfg.Source, Preparer: cfg.Preparer, Desired: cfg.Config, WatchChanges: cfg.WatchChanges, Log: cfg.Log,
		}),
		reload: make(chan struct{}, 1),
		chosen: make(chan struct{}, 1),
		states: pace.NewLatest[State](),
		health: health.New(cfg.Rules),
		state:  State{Config: cfg.Config},
	}
}

// States delivers the newest State. A State that was not received yet is replaced.
func (v *Inventory) States() <-chan State { return v.states }

// Link has the States that follow show the links of the GPUs. It does not block.
func (v *Inventory) Link() { v.observer.Link() }

// Reload reads the node again, and forgets the events that made GPUs unhealthy.
func (v *Inventory) Reload() { pace.Signal(v.reload) }

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
	g.Go(func() error { return v.loop(ctx) })
	g.Go(func() error { return v.observer.Run(ctx) })
	return g.Wait()
}

func (v *Inventory) loop(ctx context.Context) error {
	v.refresh = newAlarm()
	defer v.refresh.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case obs := <-v.observer.Observations():
			if err := v.observed(obs); err != nil {
				return err
			}
		case ev := <-v.observer.Events():
			v.event(ev)
		case <-v.reload:
			v.log.Info("reloading")
			v.health.Reset()
			v.observer.Reload()
		case <-v.chosen:
			v.choose()
		case err := <-v.observer.Hangs():
			v.hangs(err)
		case <-v.freed():
			v.publish()
		case <-v.gates():
			v.publish()
		case <-v.refresh.rings():
			v.observer.Refresh()
		}
		v.refresh.set(v.health.Next())
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (v *Inventory) observed(obs observe.Observation[config.Config, Prepared]) error {
	if obs.Err != nil && v.cfg.Config.FailOnInitError && v.state.Node == nil {
		return fmt.Errorf("%w (fail-on-init-error is set)", obs.Err)
	}
	before := v.state.Trouble
	v.state.Trouble, v.kind = obs.Err, kindOf(obs.Err, obs.Node != nil)
	switch {
	case errors.Is(obs.Err, gpu.ErrNoDriver):
		v.health.DriverGone(obs.Err.Error())
	case obs.Node == nil:
		// Another agent needs NVML for a while, or it failed once: what is known
		// about the GPUs still holds.
	case obs.Err == nil:
		v.state.Node, v.state.Config, v.state.Prepared = obs.Node, obs.Desired, obs.Prepared
		v.state.Linked = obs.Linked
		v.layout = resource.NewLayout(obs.Node, obs.Desired)
		v.health.Observe(obs.Node, obs.At)
	case v.state.Node != nil:
		// What could not be prepared is not advertised. What was prepared before
		// stays advertised, with its health.
		v.health.Observe(obs.Node, obs.At)
	}
	v.publish()
	v.log.Debug("gpus read", "err", obs.Err)
	v.reportTrouble(before, obs.Err)
	return nil
}

// hangs handles a driver that begins to hang, or that answers again. While it hangs
// no container can start, so every GPU is unhealthy.
func (v *Inventory) hangs(err error) {
	v.state.Hang = err
	if err != nil {
		v.health.Hangs(err.Error())
		v.cfg.Recorder.Waiting(health.KindHang)
		v.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		v.log.Error("driver hangs, all gpus are unhealthy", "err", err)
	} else {
		v.health.Hangs("")
		v.log.Info("driver answers again")
		v.reportTrouble(nil, v.state.Trouble)
	}
	v.publish()
}

func (v *Inventory) event(ev gpu.Event) {
	counts := v.health.Apply(ev, time.Now())
	if counts {
		v.publish()
	}
	v.cfg.Recorder.Event(ev)
	if ev.Kind == gpu.EventXID && !counts {
		v.log.Info("xid ignored", "gpu", ev.GPU, "xid", ev.XID)
	}
	if health.NeedsRefresh(ev) {
		v.observer.Refresh()
	}
}

// publish derives the State and delivers it. Events change nothing but the health of
// what is advertised.
func (v *Inventory) publish() {
	was := v.state.Set
	if v.state.Node != nil {
		view := v.state.Prepared.fit(v.state.Node, v.health.View())
		v.state.Set = v.gated(v.owned(v.layout.Set(view)))
		v.cfg.Recorder.Advertised(v.state.Set)
	}
	v.states.Put(v.state)
	logChanges(v.log, was, v.state.Set)
	v.report(reports(was, v.state.Set)...)
}
