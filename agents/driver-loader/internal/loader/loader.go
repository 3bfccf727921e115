package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/root"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/reconcile"
)

// Name of the agent, in facts, claims and logs.
const Name = "driver-loader"

// Kernel loads and unloads modules.
type Kernel interface {
	Load(ctx context.Context, m *module.Module, params []string) error
	Unload(name string) error
}

// Daemons starts and stops the daemons of the driver root that is shown.
type Daemons interface {
	// Missing returns those that should run and do not.
	Missing() []string
	// Start starts them. The first error is about those that are in the way of nothing.
	Start(ctx context.Context) (skipped, err error)
	// Stop stops all.
	Stop(ctx context.Context) error
}

// Config describes a node to a Loader.
type Config struct {
	// Kernel is where the host's /proc, /sys, /dev and /lib/modules are.
	Kernel kernel.Root
	// HostRoot is where this process sees the host's root folder, "" if it does not.
	HostRoot string
	// PodLogs is where it sees the host's /var/log/pods.
	PodLogs string
	// Store is the agent's store.
	Store    string
	Place    root.Driver
	Contract contract.Dir
	Nodes    devnode.Config
	Builder  *build.Builder
	// Signer signs the modules; nil for not.
	Signer *build.Signer
	Jobs   int
	// Desired returns what the node should run.
	Desired func() (Desired, error)
	// Daemons may be nil for none.
	Daemons Daemons
	// Settled is called by Run when the loaded or the desired driver may have changed; nil for
	// nothing.
	Settled func()
	// Started is called after daemons were started; nil for nothing.
	Started func()
	// Patience is how long Swap waits for what uses the driver; 0 for 5 minutes.
	Patience time.Duration
	// Calls are the system calls; nil for those of the running kernel. Open opens a device and
	// closes it; nil for the system call.
	Calls Kernel
	Open  func(path string) error
	Log   *slog.Logger
}

// Loader brings the driver of a node to its desired state.
type Loader struct {
	cfg      Config
	journal  journal
	payloads payload.Store
	cache    cache.Cache
	calls    Kernel

	// turn is taken by what changes the node; mu guards the fields below it.
	turn sync.Mutex
	// What this process holds, which a crash frees, and what it has seen.
	grant     *contract.Grant
	validated Driver

	loop  *reconcile.Loop
	mu    sync.Mutex
	state Step
	// kernel is the running one, which was observed once.
	kernel kernel.Kernel
	// checked is the driver that was rehearsed last, and standing what Run has seen last.
	checked Driver
	drivers string
	// lack is why the driver of this process could not be imported.
	importFailed *cause.Cause
	// forget is set if a driver that has failed is to be tried again.
	forget bool
}

// New returns a Loader. It does nothing yet.
func New(cfg Config, machine string) *Loader {
	l := &Loader{
		cfg: cfg, journal: newJournal(cfg.Store), payloads: payload.Store{Dir: cfg.Store, Machine: machine},
		cache: cache.Cache{Dir: cfg.Store}, calls: cfg.Calls,
	}
	l.loop = l.newLoop()
	if l.cfg.Open == nil {
		l.cfg.Open = openDevice
	}
	if l.calls == nil {
		l.calls = kernel.Syscalls{Root: cfg.Kernel}
	}
	return l
}

// ErrNotDone is returned while the driver does not work, or somebody changes it.
var ErrNotDone = errors.New("the driver does not work, or is being changed")

// maxSteps is how many steps a node can need: more are a mistake in Next.
const maxSteps = 60

// Settle takes steps until there is nothing left to do, or nothing that can be done now. It
// returns the last step, which is Done or Wait. One process of a node takes steps at a time.
func (l *Loader) Settle(ctx context.Context) Step {
	step := l.settle(ctx, l.cfg.Desired, l.forgive)
	if why := l.importCause(); why != nil {
		step.Causes = append([]cause.Cause{*why}, step.Causes...)
		l.set(step)
	}
	return step
}

// Import runs what copies the driver of this process into the store. If that fails, the store may
// have another one: each result of Settle names the cause.
func (l *Loader) Import(ctx context.Context, run func(context.Context) error) {
	l.set(Step{Kind: Import})
	err := run(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	why := AsCause("import of the driver", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.importFailed = &why
}

// importCause returns why the store does not have the driver of this process, nil if it has.
func (l *Loader) importCause() *cause.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.importFailed
}

// settle is Settle for what desired returns. It calls first when it is its turn.
func (l *Loader) settle(ctx context.Context, desired func() (Desired, error), first func() error) Step {
	l.turn.Lock()
	defer l.turn.Unlock()
	unlock, err := l.lock(ctx)
	if err == nil {
		defer unlock()
		err = first()
	}
	if err != nil {
		return l.stop(ctx, wait(AsCause("store", err)))
	}
	for range maxSteps {
		o, observed := l.Observe(ctx)
		desired, err := desired()
		if err != nil {
			return l.stop(ctx, wait(AsCause("configuration", err)))
		}
		step := Next(o, desired)
		l.recordDrivers(o, desired)
		l.set(step)
		if step.Kind == Done || step.Kind == Wait {
			if observed != nil && step.Kind == Wait {
				step.Causes = append(step.Causes, AsCause("node", observed))
			}
			if observed == nil && step.Kind == Done {
				l.collect(o, o.Desired(desired))
			}
			return l.stop(ctx, step)
		}
		l.cfg.Log.Info("next step", "step", step.String())
		if err = l.act(ctx, o, step); err == nil {
			continue
		}
		if step.ahead {
			return l.stop(ctx, Step{Kind: Done, Driver: o.Running, Causes: causes(step, err), ahead: true})
		}
		if ctx.Err() != nil || !l.failed(ctx, o, step, err) {
			return l.stop(ctx, wait(causes(step, err)...))
		}
	}
	return l.stop(ctx, wait(cause.New(cause.Unexpected, Name, fmt.Sprintf("it has taken %d steps, and is not done", maxSteps))))
}

// Undisturbed runs f while the driver works, and nobody changes it or has claimed NVML. While
// that is not so, it returns ErrNotDone. Steps wait for f.
func (l *Loader) Undisturbed(ctx context.Context, f func(context.Context) error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if l.State().Kind != Done {
		return ErrNotDone
	}
	share, err := l.cfg.Contract.NVML().Share()
	if errors.Is(err, contract.ErrClaimed) {
		return fmt.Errorf("%w: %w", ErrNotDone, err)
	}
	defer func() {
		if err := share.Release(); err != nil {
			l.cfg.Log.Warn("cannot release the share of NVML", "err", err)
		}
	}()
	return f(ctx)
}

// stop ends a run of steps: others may use NVML again.
func (l *Loader) stop(ctx context.Context, step Step) Step {
	l.release(ctx)
	l.set(step)
	return step
}

func (l *Loader) set(step Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = step
}

// State returns the last step.
func (l *Loader) State() Step {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Ready returns nil if the driver works, and otherwise what the agent does or waits for.
func (l *Loader) Ready() error {
	switch s := l.State(); s.Kind {
	case Done:
		return nil
	case Wait:
		return errors.Join(cause.Errors(s.Causes)...)
	case "":
		return errors.New("the node was not looked at yet")
	default:
		return errors.New(s.String())
	}
}

// Again makes Run look at the node again now.
func (l *Loader) Again() { l.loop.Wake() }

// Retry makes Run look at the node again now, and forget that a driver does not work.
func (l *Loader) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget = true
	l.Again()
}

// forgive does what Retry asks for.
func (l *Loader) forgive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.forget {
		return nil
	}
	l.forget = false
	return l.journal.forgive()
}
