package manager

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// Name is the name of the agent: its field manager, and the writer of its facts.
const Name = "mig-manager"

// Wish is what the config asks of the GPUs that it selects.
type Wish map[gpu.UUID]mig.Desired

// Held are MIG devices that containers hold, with a process or without.
type Held map[gpu.UUID][]Device

// GPUs reads and changes the GPUs of the node.
type GPUs interface {
	Read(ctx context.Context) ([]mig.GPU, error)
	// Plan returns the change that the wish takes, and touches nothing. Where it can be reached
	// in several ways, it spares what is held. Its error says why the wish cannot be.
	Plan(ctx context.Context, wish Wish, held Held) (Change, error)
	// Apply makes the change. Its error is a *Busy, or wraps ErrNeedsReboot, where they say why.
	Apply(ctx context.Context, wish Wish, held Held) error
}

// Units are those of the host's systemd that use GPUs.
type Units interface {
	Stop(ctx context.Context) error
	Start(ctx context.Context) error
	// Stopped returns those that have to be started again.
	Stopped() ([]string, error)
}

// Config describes a Manager.
type Config struct {
	Client *kube.Client
	// Report sends an Event of the Node.
	Report func(kube.Event)
	GPUs   GPUs
	// Recover ends what a process before left unfinished, in the direction of a wish, which is
	// nil if nothing is wanted. It is called until it succeeds, and seldom after an error that wraps
	// ErrNeedsReboot.
	Recover func(ctx context.Context, wish Wish) error
	// Select returns what the config of a name asks of the GPUs. With an error, the wish is what
	// can be done nevertheless, nil for nothing. It is called again for each observation.
	Select func(name string, gpus []mig.GPU) (Wish, error)
	// Held returns the MIG devices that containers hold, by the kubelet.
	Held func(ctx context.Context) (Held, error)
	// Users returns the containers that hold devices of a change, by the kubelet.
	Users func(ctx context.Context, c Change) ([]User, error)
	// Units is nil if those of the host are left alone.
	Units Units
	// OfHost reports whether Units has a unit.
	OfHost func(unit string) bool
	// Reboot reboots the host.
	Reboot func(ctx context.Context) error
	// Default is the config of a node without the label, empty for none.
	Default  string
	Options  Options
	Contract contract.Dir
	// DriverVersion returns the version of the driver, empty if it is not known.
	DriverVersion func() string
	// Loaded names the loading of the driver: it is another one after the driver was unloaded and loaded
	// again, and empty while no driver is loaded.
	Loaded func() string
	// RebootFile is the file that says for which config the host was rebooted.
	RebootFile string
	// Retry has the pauses between attempts.
	Retry pace.Backoff
	Log   *slog.Logger
}

// Manager is the loop. Other goroutines call its exported methods.
type Manager struct {
	cfg  Config
	wake chan struct{}
	// now and boottime are the clocks.
	now      func() time.Time
	boottime func() time.Duration
	nodes    pace.Latest[Node]
	ready    *pace.Readiness

	// The loop owns these.
	node     Node
	wanted   string
	attempt  attempt
	recovery recovery
	// stopUnits is set if a unit of the host is in the way, or was in that of the last attempt.
	stopUnits bool
	// inEffect is the config that was last found in effect.
	inEffect string
	// loaded is Config.Loaded at the start of the last look.
	loaded string
	// cordoned is set once this process has asked for a cordon, which the watch may not have shown yet.
	cordoned bool
	// rejected has the pauses between writes of the cordon.
	rejected pace.Backoff
	// shown is what the Node was made to show, about what that is, and wrote when it was written. shown
	// is nil if it is not known what the Node shows.
	shown *published
	about incident
	wrote time.Time
	// rewrites limits how often a cause is written again.
	rewrites pace.Budget
	// unwritten has the pauses after writes that were rejected, and notBefore is when the next may be.
	unwritten pace.Backoff
	notBefore time.Time
	// overloaded is until when the API server has asked to be left alone.
	overloaded time.Time
	fact       fact
	// reported and logged are the last Event and the last line of the log about a state.
	reported *incident
	logged   incident

	// mu guards what metrics read.
	mu    sync.Mutex
	stats Stats
}

// recovery is what is remembered of the attempts to end what a process before left.
type recovery struct {
	done  bool
	until time.Time
	retry pace.Backoff
}

// attempt is what is remembered of the last attempt.
type attempt struct {
	Attempt
	// of names the change.
	of    string
	until time.Time
	retry pace.Backoff
}

// Stats are what metrics show.
type Stats struct {
	State State
	// Config is the one that is wanted.
	Config string
	// Users is how many the change waits for.
	Users int
	// Changes counts attempts, by result: success, failed, busy.
	Changes map[string]uint64
	// Took is how long the last change took that succeeded.
	Took time.Duration
}

// New returns a Manager.
func New(cfg Config) *Manager {
	return &Manager{
		cfg: cfg, wake: make(chan struct{}, 1), now: time.Now, boottime: contract.Boottime, nodes: pace.NewLatest[Node](),
		ready: pace.NewReadiness(errStarting), recovery: recovery{retry: cfg.Retry}, rejected: pace.Backoff{First: time.Second, Most: time.Minute},
		fact: fact{retry: pace.Backoff{First: retryFact, Most: retryFactMost}}, rewrites: pace.Budget{Burst: rewriteBurst, Every: rewriteEvery}, unwritten: pace.Backoff{First: retryPublish, Most: retryPublishMost},
		stats: Stats{Changes: map[string]uint64{"success": 0, "failed": 0, "busy": 0}},
	}
}

// Ready returns nil while the layouts are as the config asks, and otherwise why they are not.
func (m *Manager) Ready() error { return m.ready.Err() }

// Changed makes the manager look again: at the config, or at the GPUs.
func (m *Manager) Changed() { pace.Signal(m.wake) }

// Stats returns what metrics show.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Changes = maps.Clone(m.stats.Changes)
	return s
}

// Run keeps the layouts until ctx ends. A change that has begun is ended first.
func (m *Manager) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() { m.watch(ctx) })
	watching.Go(func() { m.watchFact(ctx) })
	for ctx.Err() == nil {
		after := m.step(ctx)
		if !m.wait(ctx, after) {
			break
		}
	}
	m.leave(context.WithoutCancel(ctx))
	return nil
}

// wait waits for a change, or for the time after; 0 for no limit, less for no wait.
func (m *Manager) wait(ctx context.Context, after time.Duration) bool {
	if after < 0 {
		return ctx.Err() == nil
	}
	var alarm <-chan time.Time
	if after > 0 {
		t := time.NewTimer(after)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case m.node = <-m.nodes:
	case <-m.wake:
	case <-alarm:
	}
	return true
}

// again is the result of step for a look without a wait.
const again = -1

// step observes, derives and acts once. It returns when to do so again if nothing changes.
func (m *Manager) step(ctx context.Context) time.Duration {
	select {
	case m.node = <-m.nodes:
	default:
	}
	started := m.startUnits(ctx)
	o := m.observe(ctx)
	if ctx.Err() != nil {
		return 0 // what was not read says nothing about the node
	}
	a := Next(o)
	a.Cause = oneLine(a.Cause)
	m.note(o, a)
	m.log(o, a)
	unpublished, err := m.publish(ctx, o, a)
	if err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn("cannot publish the state of the mig config, retrying", "in", unpublished, "err", err)
	}
	after := soonest(soonest(m.act(ctx, o, a), started), unpublished)
	if o.Node.Known && !m.recovery.done {
		after = soonest(after, max(time.Millisecond, m.recovery.until.Sub(m.now())))
	}
	if m.shown != nil && *m.shown != (published{State: o.Node.State, Cause: o.Node.Cause}) {
		after = soonest(after, writeSeen) // the watch wakes the loop before that
	}
	return after
}

const (
	// leaveLimit bounds the requests at the end.
	leaveLimit = 10 * time.Second
	// retryUnits is how soon a unit of the host that does not start is started again.
	retryUnits = 15 * time.Second
)

// soonest returns the sooner of two results of step.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// startUnits starts units of the host that an attempt, or a process before, has left stopped.
func (m *Manager) startUnits(ctx context.Context) time.Duration {
	if m.cfg.Units == nil {
		return 0
	}
	stopped, err := m.cfg.Units.Stopped()
	if err == nil && len(stopped) > 0 {
		err = m.cfg.Units.Start(ctx)
	}
	if err != nil {
		m.cfg.Log.Error("cannot start units of the host that were stopped, retrying", "in", retryUnits, "err", err)
		return retryUnits
	}
	return 0
}
