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

// Units manages the host's systemd units that use GPUs.
type Units interface {
	Stop(ctx context.Context) error
	// Start starts the units again that Stop has stopped.
	Start(ctx context.Context) error
}

// Config configures a Manager.
type Config struct {
	Client *kube.Client
	// Report sends an Event about the Node.
	Report func(kube.Event)
	GPUs   GPUs
	// Select returns the desired state of the GPUs for the name of a config. If the config is not
	// possible on some GPUs, it returns an error and the desired state of the other GPUs, or nil.
	// It is called again for each observation.
	Select func(name string, gpus []mig.GPU) (map[gpu.UUID]mig.Desired, error)
	// Stays reports whether a pod comes back after an eviction.
	Stays func(ctx context.Context, pod procowner.Pod) bool
	// Units is nil if the host's units must not be stopped.
	Units Units
	// OfHost reports whether Units can stop a unit.
	OfHost func(unit string) bool
	// Reboot reboots the host.
	Reboot func(ctx context.Context) error
	// Default is the config of a node without the label, or "".
	Default string
	Options Options
	// PauseLabel is another label of DaemonSets that hold the driver (nodestate.Pause).
	PauseLabel string
	Contract   contract.Dir
	// DriverVersion returns the version of the driver, or "" if it is not known.
	DriverVersion func() string
	// Loaded identifies the load of the driver. The value changes when the driver is unloaded and
	// loaded again. It is empty while no driver is loaded.
	Loaded func() string
	// RebootFile is the path of the file that records a reboot of the host, and the config that needed it.
	RebootFile string
	// Retry has the delays between attempts.
	Retry pace.Backoff
	Log   *slog.Logger
}

// Manager keeps the layouts in the desired state. Goroutines other than its loop may only call the
// exported methods.
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

	// Only the loop uses the fields below.
	node     Node
	wanted   string
	attempt  attempt
	recovery recovery
	// stopUnits is set if a unit of the host prevents the change, or prevented the last attempt.
	stopUnits bool
	// inEffect is the config that was last in effect.
	inEffect string
	// loaded is the value of Config.Loaded at the start of the last observation.
	loaded string
	// cordoned and paused are set after this process has requested a cordon or a pause, even if the response was lost.
	cordoned, paused bool
	// pausedSince is the time of the first observation of the current pause.
	pausedSince time.Time
	// about is the last published state, without details that change often. cause is the published text.
	about incident
	cause string
	// reported is the last Event, and logged the last log entry, about a state.
	reported *incident
	logged   incident
}

// pause is the delay between two attempts.
type pause struct {
	until time.Time
	retry pace.Backoff
}

// remaining returns the rest of the pause, or 0 if it is over.
func (p pause) remaining(now time.Time) time.Duration { return max(0, p.until.Sub(now)) }

// recovery records attempts to finish the changes of an earlier process.
type recovery struct {
	pause
	done bool
}

// attempt records the last attempt.
type attempt struct {
	Attempt
	pause
	// change is a hash that identifies the change.
	change string
	// stuck has the users that a pause of DaemonSets has not removed.
	stuck []procowner.Pod
}

// The delays after a failed write to the Node.
const (
	retryWrite     = time.Second
	retryWriteMost = time.Minute
)

// New returns a Manager. Run starts it.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, now: time.Now, boottime: contract.Boottime, ready: reconcile.NewStatus(errStarting), metrics: newMetrics(),
		fact:     cfg.Contract.NewLastingKeeper(contract.MIGReady, cfg.Log),
		recovery: recovery{pause: pause{retry: cfg.Retry}},
	}
	m.writer = nodestate.New(cfg.Client, nodestate.Config{
		Notes: []string{CauseAnnotation}, Cordon: CordonedAnnotation,
		Pause: nodestate.Pause{Value: nodestate.PausedForMIGChange, Label: cfg.PauseLabel, Annotation: PausedAnnotation},
		Time:  func() time.Time { return m.now() }, Log: cfg.Log,
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

// Ready returns nil while the layouts match the config, and otherwise the reason.
func (m *Manager) Ready() error { return m.ready.Err() }

// Changed makes the manager observe the config and the GPUs again.
func (m *Manager) Changed() { m.loop.Wake() }

// Run keeps the layouts in the desired state until ctx ends. It finishes a change that has begun.
func (m *Manager) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { m.watch(ctx) })
	watching.Go(func() { _ = m.fact.Keep(ctx) }) // Keep ends with ctx
	err := m.loop.Run(ctx)
	m.restoreAtEnd(context.WithoutCancel(ctx))
	return err
}

// step observes the node, derives an action and performs it. It returns errors of writes to the Node.
func (m *Manager) step(ctx context.Context) (reconcile.Result, error) {
	m.node = m.currentNode()
	started := m.startUnits(ctx)
	o := m.observe(ctx)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil //nolint:nilerr // the observation is not complete
	}
	a := Next(o)
	if len(a.Users) > 0 {
		m.attempt.stuck = a.Stuck
	}
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

// retryUnits is the delay after a unit of the host could not be started.
const retryUnits = 15 * time.Second

// earliest returns the shortest time. It ignores 0, which means never.
func earliest(times ...time.Duration) time.Duration {
	var out time.Duration
	for _, t := range times {
		if t > 0 && (out == 0 || t < out) {
			out = t
		}
	}
	return out
}

// startUnits starts units of the host that an attempt or an earlier process has left stopped.
func (m *Manager) startUnits(ctx context.Context) time.Duration {
	if m.cfg.Units == nil {
		return 0
	}
	if err := m.cfg.Units.Start(ctx); err != nil {
		m.cfg.Log.Error("cannot start units of the host that were stopped, retrying", "in", retryUnits, "err", err)
		return retryUnits
	}
	return 0
}
