// Package inventory knows what the node offers: it takes observations of the
// node, events and changes of the config in, derives resources and health from
// them with pure packages, and hands each State on to who publishes it: the
// device plugin, the DRA plugin, the supervisor of MPS daemons.
//
// One goroutine owns what is known; it waits for nothing but its inputs.
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

// Recorder takes note of what is offered and why. It must not block.
type Recorder interface {
	Offered(resource.Set)
	Event(gpu.Event)
	// Waiting notes why nothing is offered, with an empty reason that it is.
	Waiting(reason string)
	// Configured notes that a config was taken, or why it was not.
	Configured(err error)
}

// Config says what an Inventory works with.
type Config struct {
	Config config.Config
	Rules  health.Rules
	Source gpu.Source
	// Preparer makes what must be there before the GPUs of a node are offered.
	Preparer Preparer
	// WatchChanges calls changed once at first, and then for each change on
	// the node after which a driver that did not answer, or a Preparer that
	// failed, is worth another try. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	Recorder     Recorder
	// Reporter is nil if there is nobody to tell.
	Reporter Reporter
	// Owner is nil for a process that offers nothing itself.
	Owner Owner
	// Gate is nil if nothing but the GPUs is needed.
	Gate Gate
	Log  *slog.Logger
}

// Inventory is what the node offers, and why.
type Inventory struct {
	cfg      Config
	log      *slog.Logger
	observer *observe.Observer[config.Config, Prepared]
	reload   chan struct{}
	choices  choices
	// chosen tells of choices.
	chosen chan struct{}
	states pace.Latest[State]

	// What follows is owned by the goroutine of Run.
	health *health.Machine
	// state is the newest.
	state State
	// layout is what the node of the state offers by its config.
	layout resource.Layout
	// look is when the node is looked at without an event.
	look *alarm
}

// State is what is offered at one moment. It is never changed.
type State struct {
	// Node is offered by Config, for which Prepared was made. It is nil before
	// the first look in which all went well.
	Node     *gpu.Node
	Config   config.Config
	Prepared Prepared
	Set      resource.Set
	// Trouble is why the node is not offered as it is.
	Trouble error
	// Hang is set while the driver hangs.
	Hang error
}

var errStarting = errors.New("start: the node has not been looked at yet")

// Unusable returns why there are no devices to offer.
func (s State) Unusable() error {
	switch {
	case s.Hang != nil:
		return s.Hang
	case s.Node == nil && s.Trouble == nil:
		return errStarting
	case s.Node == nil, errors.Is(s.Trouble, gpu.ErrNoDriver):
		return s.Trouble
	case len(s.Set.Resources) == 0:
		return errors.New("offer GPUs: the node has none that can be offered")
	}
	return nil
}

// New returns an Inventory; it does nothing before Run.
func New(cfg Config) *Inventory {
	return &Inventory{
		cfg: cfg,
		log: cfg.Log,
		observer: observe.New(observe.Config[config.Config, Prepared]{
			Source: cfg.Source, Preparer: cfg.Preparer, Wanted: cfg.Config, WatchChanges: cfg.WatchChanges, Log: cfg.Log,
		}),
		reload: make(chan struct{}, 1),
		chosen: make(chan struct{}, 1),
		states: pace.NewLatest[State](),
		health: health.New(cfg.Rules),
		state:  State{Config: cfg.Config},
	}
}

// States has the newest State whenever there is another one. One that was not
// taken is replaced.
func (v *Inventory) States() <-chan State { return v.states }

// Reload looks at the node again and forgets what made GPUs unhealthy.
func (v *Inventory) Reload() { pace.Signal(v.reload) }

// Hangs returns why the driver is known to hang.
func (v *Inventory) Hangs() error {
	if c, ok := v.cfg.Source.(gpu.Checker); ok {
		return c.Health()
	}
	return nil
}

// Run keeps the inventory until ctx ends.
func (v *Inventory) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return v.observer.Run(ctx) })
	g.Go(func() error { return v.loop(ctx) })
	return g.Wait()
}

func (v *Inventory) loop(ctx context.Context) error {
	v.look = newAlarm()
	defer v.look.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case obs := <-v.observer.Looks():
			if err := v.observed(obs); err != nil {
				return err
			}
		case ev := <-v.observer.Events():
			v.event(ev)
		case <-v.reload:
			v.log.Info("reloading")
			v.health.Reset()
			v.observer.LookAfresh()
		case <-v.chosen:
			v.choose()
		case err := <-v.observer.Hangs():
			v.hangs(err)
		case <-v.freed():
			v.publish()
		case <-v.gates():
			v.publish()
		case <-v.look.rings():
			v.observer.Look()
		}
		v.look.set(v.health.Next())
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
	v.state.Trouble = obs.Err
	switch {
	case errors.Is(obs.Err, gpu.ErrNoDriver):
		v.health.DriverGone(obs.Err.Error())
	case obs.Node == nil:
		// Somebody else needs NVML for a while, or it did not answer once: what
		// was known of the GPUs still holds.
	case obs.Err == nil:
		v.state.Node, v.state.Config, v.state.Prepared = obs.Node, obs.Wanted, obs.Prepared
		v.layout = resource.NewLayout(obs.Node, obs.Wanted)
		v.health.Observe(obs.Node, obs.At)
	case v.state.Node != nil:
		// What could not be prepared is not offered; what was is, as far as it
		// still works.
		v.health.Observe(obs.Node, obs.At)
	}
	v.publish()
	v.log.Debug("looked at the node", "err", obs.Err)
	v.tell(before, obs.Err)
	return nil
}

// hangs acts when the driver begins to hang, and when it answers again. On a
// driver that hangs no container can start, so that no GPU is offered.
func (v *Inventory) hangs(err error) {
	v.state.Hang = err
	if err != nil {
		v.health.Hangs(err.Error())
		v.cfg.Recorder.Waiting(err.Error())
		v.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		v.log.Error("the driver hangs, no gpu can be used", "err", err)
	} else {
		v.health.Hangs("")
		v.log.Info("the driver answers again")
		v.tell(nil, v.state.Trouble)
	}
	v.publish()
}

// tell tells a trouble once, not after every look.
func (v *Inventory) tell(before, err error) {
	switch {
	case v.state.Hang != nil: // which is told already
	case err == nil:
		v.cfg.Recorder.Waiting("")
	case before != nil && before.Error() == err.Error():
	default:
		v.cfg.Recorder.Waiting(err.Error())
		v.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		v.log.Warn("gpus cannot be offered, waiting", "err", err)
	}
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
	if health.NeedsLook(ev) {
		v.observer.Look()
	}
}

// publish derives what is offered and hands it on. Events change nothing but the
// health of what is.
func (v *Inventory) publish() {
	was := v.state.Set
	if v.state.Node != nil {
		view := v.state.Prepared.fit(v.state.Node, v.health.View())
		v.state.Set = v.gated(v.owned(v.layout.Set(view)))
		v.cfg.Recorder.Offered(v.state.Set)
	}
	v.states.Put(v.state)
	logChanges(v.log, was, v.state.Set)
	v.report(reports(was, v.state.Set)...)
}
