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

// Name is the name of the agent in facts, claims and logs.
const Name = "driver-loader"

// Kernel loads and unloads modules.
type Kernel interface {
	Load(ctx context.Context, m *module.Module, params []string) error
	Unload(name string) error
}

// Daemons starts and stops the daemons in the mounted driver root.
type Daemons interface {
	// Missing returns the names of the daemons that should run and do not run.
	Missing() []string
	// Start starts the missing daemons. It returns the errors of optional daemons in skipped.
	Start(ctx context.Context) (skipped, err error)
	// Stop stops all daemons.
	Stop(ctx context.Context) error
}

// Config describes a node to a Loader.
type Config struct {
	// Kernel has the paths of the host's /proc, /sys, /dev and /lib/modules.
	Kernel kernel.Root
	// HostRoot is the host's root folder, as a path of this process, or "" if it is not mounted.
	HostRoot string
	// PodLogs is the host's /var/log/pods, as a path of this process.
	PodLogs string
	// Store is the agent's store.
	Store    string
	Place    root.Driver
	Contract contract.Dir
	Nodes    devnode.Config
	Builder  *build.Builder
	// Signer signs the modules; nil to leave them unsigned.
	Signer *build.Signer
	Jobs   int
	// Desired returns the desired state of the node.
	Desired func() (Desired, error)
	// Daemons is nil if no daemons are managed.
	Daemons Daemons
	// Settled is called by Run if the loaded or the desired driver may have changed. It may be nil.
	Settled func()
	// Started is called after daemons were started. It may be nil.
	Started func()
	// Skipped is called if an optional module cannot be loaded, unless that was so before. It may be nil.
	Skipped func(cause.Cause)
	// Patience is how long Swap waits for users of the driver. Default: 5 minutes.
	Patience time.Duration
	// Calls loads and unloads modules; nil for the running kernel. Open opens and closes a device; nil
	// for the system call.
	Calls Kernel
	Open  func(path string) error
	Log   *slog.Logger
}

// Loader brings the driver of a node to the desired state.
type Loader struct {
	cfg      Config
	journal  journal
	payloads payload.Store
	cache    cache.Cache
	calls    Kernel

	// turn is held while the node is changed, and guards grant, validated and failure. mu guards the
	// fields below it.
	turn sync.Mutex
	// grant is the claim of NVML, which ends with this process. validated is the last driver that
	// passed validate in this process.
	grant     *contract.Grant
	validated Driver
	// failure is the last step that was performed, if it failed.
	failure Step

	// background builds modules for a new kernel. ahead builds while the driver works: the next driver, and
	// optional modules.
	background, ahead background

	loop  *reconcile.Loop
	mu    sync.Mutex
	state Step
	// kernel is the running kernel. It is observed once.
	kernel kernel.Kernel
	// checked is the driver that was checked last, and drivers the last value that recordDrivers recorded.
	checked Driver
	drivers string
	// mounted is the root of the working driver in the store, or "". warned is set if the log says that another
	// program has changed its mount.
	mounted string
	warned  bool
	// importFailed is the reason why Import failed.
	importFailed *cause.Cause
	// forget is set to try a failed driver again. started is set after the first settling of this process.
	forget, started bool
	// progress is the progress of the current step.
	progress string
}

// New returns a Loader.
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

// ErrNotDone is returned while the driver does not work or is being changed.
var ErrNotDone = errors.New("the driver does not work, or is being changed")

// maxSteps is the largest number of steps of one run. More steps are a bug in Next.
const maxSteps = 60

// Settle performs steps until the node is in the desired state or something prevents that. It returns
// the last step, which is Done or Wait. Only one process of a node performs steps at a time.
func (l *Loader) Settle(ctx context.Context) Step {
	step := l.settle(ctx, l.cfg.Desired, l.forgive)
	if why := l.importCause(); why != nil {
		step.Causes = append([]cause.Cause{*why}, step.Causes...)
		l.set(step)
	}
	return step
}

// Import runs a function that copies the configured driver into the store. If the function fails, the
// store may still have another driver. The result of each Settle then includes the cause.
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

// importCause returns why Import failed, or nil.
func (l *Loader) importCause() *cause.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.importFailed
}

// settle is Settle for the state that desired returns. As soon as it has the lock, it calls the function
// first.
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
		step := l.Next(ctx, o, desired)
		l.recordDrivers(o, desired)
		l.set(step.visible(o))
		if l.State().Kind == Done {
			p, _ := o.payload(o.Shown)
			l.setMounted(p.Root)
		}
		if step.Kind == Done || step.Kind == Wait {
			if observed != nil && step.Kind == Wait {
				// This error can be the reason for the other causes: without sysfs, the node seems to have no GPU.
				step.Causes = append([]cause.Cause{AsCause("node", observed)}, step.Causes...)
			}
			if step.Kind == Done {
				l.recordFailure(o, nil)
			}
			if observed == nil && step.Kind == Done {
				l.collect(o, o.Desired(desired))
			}
			return l.stop(ctx, step)
		}
		l.cfg.Log.Info("next step", "step", step.String())
		if err = l.perform(ctx, o, step); errors.Is(err, errCovered) {
			return l.stop(ctx, l.State())
		}
		l.remember(step, err)
		switch {
		case err == nil:
		case step.ahead:
			return l.stop(ctx, Step{Kind: Done, Driver: o.Running, Causes: causes(step, err), Optional: step.Optional, ahead: true})
		case step.optional != "" && ctx.Err() == nil:
			l.skip(o, step, err)
		case l.fail(ctx, o, step, err):
			return l.stop(ctx, wait(causes(step, err)...))
		}
	}
	return l.stop(ctx, wait(cause.New(cause.Unexpected, Name, fmt.Sprintf("the driver is not ready after %d steps", maxSteps))))
}

// Undisturbed runs f if the driver works, and blocks changes meanwhile. If the driver does not work, is
// being changed, or NVML is claimed, it returns ErrNotDone.
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

// stop ends a run of steps. Other agents can use NVML again.
func (l *Loader) stop(ctx context.Context, step Step) Step {
	l.release(ctx)
	l.set(step)
	return step
}

func (l *Loader) set(step Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if step.optional != "" {
		// The driver of the last step works.
		step.Kind, step.Driver, step.Modules, step.optional = Done, l.state.Driver, nil, ""
	}
	l.state, l.progress = step, ""
}

// State returns the last step.
func (l *Loader) State() Step {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}
