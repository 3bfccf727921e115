package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/procowner"
	"outrigger.dev/pkg/reconcile"
)

// Name is the name of the agent: its field manager, and the writer of its facts.
const Name = "mig-manager"

// GPUs observes and changes the GPUs of the node, as an *apply.Applier does.
type GPUs interface {
	Observe(ctx context.Context) (*apply.Observation, error)
	Plan(ctx context.Context, req apply.Request) (apply.Plan, error)
	Apply(ctx context.Context, req apply.Request) (apply.Result, error)
	Recover(ctx context.Context, req apply.Request) (apply.Result, error)
}

var _ GPUs = (*apply.Applier)(nil)

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
	// Select returns the desired state of the GPUs by the config of a name. With an error, it returns
	// the part that can be reached nevertheless, or nil. It is called again for each observation.
	Select func(name string, gpus []mig.GPU) (map[gpu.UUID]mig.Desired, error)
	// Stays reports whether a pod comes back after an eviction.
	Stays func(ctx context.Context, pod procowner.Pod) bool
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

// Manager keeps the layouts. Other goroutines than its loop call its exported methods.
type Manager struct {
	cfg  Config
	loop *reconcile.Loop
	// now and boottime are the clocks.
	now      func() time.Time
	boottime func() time.Duration
	// writer writes to the Node.
	writer  *nodestate.Writer
	ready   *reconcile.Status
	fact    *contract.Keeper
	metrics metrics

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
	// cordoned is set once this process has asked for a cordon, which may have come through although the answer did not.
	cordoned bool
	// about is what the Node was last made to show, in substance, and cause its text.
	about incident
	cause string
	// reported and logged are the last Event and the last line of the log about a state.
	reported *incident
	logged   incident
}

// pause is the time between two attempts.
type pause struct {
	until time.Time
	retry pace.Backoff
}

// remaining returns how long the pause takes still, 0 if it is over.
func (p pause) remaining(now time.Time) time.Duration { return max(0, p.until.Sub(now)) }

// recovery is what is remembered of the attempts to end what a process before left.
type recovery struct {
	pause
	done bool
}

// attempt is what is remembered of the last attempt.
type attempt struct {
	Attempt
	pause
	// of names the change.
	change string
}

// The delays after a write to the Node that failed.
const (
	retryWrite     = time.Second
	retryWriteMost = time.Minute
)

// New returns a Manager.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, now: time.Now, boottime: contract.Boottime, ready: reconcile.NewStatus(errStarting), metrics: newMetrics(),
		fact:     cfg.Contract.NewLastingKeeper(contract.MIGReady, cfg.Log),
		recovery: recovery{pause: pause{retry: cfg.Retry}},
	}
	m.writer = nodestate.New(cfg.Client, nodestate.Config{
		Notes: []string{CauseAnnotation}, Cordon: CordonedAnnotation, Time: func() time.Time { return m.now() }, Log: cfg.Log,
	})
	m.loop = reconcile.New(reconcile.Config{
		Name: "mig config", Step: m.step, Retry: pace.Backoff{First: retryWrite, Most: retryWriteMost}, Delays: kube.Delays,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Warn("cannot change the node, retrying", "in", in, "err", err)
		},
		Log: cfg.Log,
	})
	return m
}

// Ready returns nil while the layouts are as the config asks, and otherwise why they are not.
func (m *Manager) Ready() error { return m.ready.Err() }

// Changed makes the manager look again: at the config, or at the GPUs.
func (m *Manager) Changed() { m.loop.Wake() }

// Run keeps the layouts until ctx ends. A change that has begun is ended first.
func (m *Manager) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { m.watch(ctx) })
	watching.Go(func() { _ = m.fact.Keep(ctx) }) // it ends with ctx
	err := m.loop.Run(ctx)
	m.uncordonAtEnd(context.WithoutCancel(ctx))
	return err
}

// step observes, derives and acts once. Its errors are about writes to the Node.
func (m *Manager) step(ctx context.Context) (reconcile.Result, error) {
	m.node = m.currentNode()
	started := m.startUnits(ctx)
	o := m.observe(ctx)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil //nolint:nilerr // what was not read says nothing about the node
	}
	a := Next(o)
	a.Cause = oneLine(a.Cause)
	m.exportState(o, a)
	m.logState(o, a)
	again, unpublished := m.publish(ctx, o, a)
	acted, err := m.act(ctx, o, a)
	var recovers time.Duration
	if o.Node.Known && !m.recovery.done {
		recovers = max(time.Millisecond, m.recovery.remaining(m.now()))
	}
	return reconcile.Result{After: earliest(acted, started, recovers, again)}, errors.Join(unpublished, err)
}

// retryUnits is how soon a unit of the host that does not start is started again.
const retryUnits = 15 * time.Second

// earliest returns the shortest time, but for 0, which is none.
func earliest(times ...time.Duration) time.Duration {
	var out time.Duration
	for _, t := range times {
		if t > 0 && (out == 0 || t < out) {
			out = t
		}
	}
	return out
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
