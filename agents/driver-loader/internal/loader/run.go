package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/reconcile"
)

const (
	// doneInterval is the time between observations of a node with a working driver. The
	// kernel does not report that a module was unloaded.
	doneInterval = time.Minute
	// rootInterval is the time between checks of the mount of the driver root.
	rootInterval = 2 * time.Second
	// usersInterval is the time between observations while the driver to replace is in use.
	usersInterval = 15 * time.Second
	// retryFirst and retryMost are the first and the longest delay after any other cause.
	retryFirst, retryMost = 5 * time.Second, 10 * time.Minute
)

// Run keeps the node in the desired state until ctx ends. When ctx ends, the node stays as it is.
func (l *Loader) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { pci.Watch(ctx, l.cfg.Kernel.Sys, l.cfg.Log, l.Again) })
	watching.Go(func() { l.cfg.Contract.WatchFact(ctx, contract.DriverReady, l.lost) })
	watching.Go(func() { l.watchRoot(ctx) })
	return l.loop.Run(ctx)
}

// watchRoot looks at the mount of the driver root until ctx ends.
func (l *Loader) watchRoot(ctx context.Context) {
	for pace.Pause(ctx, rootInterval) {
		l.checkRoot()
	}
}

// checkRoot makes Run observe the node again when another program has mounted something over the driver root,
// or has unmounted it. It ends a build that Run would otherwise wait for.
func (l *Loader) checkRoot() {
	if l.covered() {
		l.warnOfMount()
		l.Again()
		l.ahead.interrupt()
	}
}

// warnOfMount logs that another program has changed the mount of the driver root, once until it is mounted again.
func (l *Loader) warnOfMount() {
	l.mu.Lock()
	before := l.warned
	l.warned = true
	l.mu.Unlock()
	if !before {
		l.cfg.Log.Warn("another program has changed the mount of the driver root, mounting the driver root again", "path", l.cfg.Place.At)
	}
}

// errCovered is returned by perform for a build that checkRoot has ended.
var errCovered = errors.New("another program has changed the mount of the driver root")

// perform performs a step. A build while the driver works can be ended by checkRoot.
func (l *Loader) perform(ctx context.Context, o Observation, s Step) error {
	if s.Kind != Build || !s.ahead && s.optional == "" {
		return l.act(ctx, o, s)
	}
	err := l.ahead.run(ctx, func(ctx context.Context) error { return l.act(ctx, o, s) })
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return errCovered
	}
	return err
}

// covered reports whether the driver works, and its root is not mounted at its place.
func (l *Loader) covered() bool {
	l.mu.Lock()
	mounted := l.mounted
	l.mu.Unlock()
	if mounted == "" || l.State().Kind != Done {
		return false
	}
	is, err := l.cfg.Place.Shown(mounted)
	return err == nil && !is
}

// setMounted records the root of the working driver, "" without one. It returns the previous root.
func (l *Loader) setMounted(root string) (before string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.mounted = l.mounted, root
	l.warned = l.warned && root == ""
	return before
}

// show mounts the root of a driver at its place.
func (l *Loader) show(p payload.Payload) error {
	if before := l.setMounted(""); before != "" && before == p.Root {
		l.warnOfMount()
	}
	if err := l.cfg.Place.Show(p.Root); err != nil {
		return err
	}
	return l.cfg.Place.Firmware()
}

// newLoop returns the loop of Run.
func (l *Loader) newLoop() *reconcile.Loop {
	return reconcile.New(reconcile.Config{
		Name: "driver", Step: l.once, Retry: pace.Backoff{First: retryFirst, Most: retryMost}, Delays: delays,
		Failed: l.warn, Log: l.cfg.Log,
	})
}

// unsettled is the last step of a node that is not in the desired state, as an error.
type unsettled struct{ Step }

func (u unsettled) Error() string { return fmt.Sprint(cause.Errors(u.Causes)) }

// once settles the node, and reports the result to the loop.
func (l *Loader) once(ctx context.Context) (reconcile.Result, error) {
	before, last := l.recordedDrivers(), l.State()
	step := l.Settle(ctx)
	if step.Kind == Done && (last.Kind != Done || !step.Driver.same(last.Driver)) {
		l.cfg.Log.Info("driver is ready", "driver", step.Driver.Version, "modules", step.Driver.Flavour)
	}
	if l.cfg.Settled != nil && l.recordedDrivers() != before {
		l.cfg.Settled()
	}
	if step.Kind != Done || len(step.Causes) > 0 {
		return reconcile.Result{}, unsettled{step}
	}
	return reconcile.Result{After: doneInterval}, nil
}

// delays returns the limits of the delay after an unsettled step.
func delays(err error) (least, most time.Duration) {
	switch u, _ := errors.AsType[unsettled](err); {
	case u.Users:
		return 0, usersInterval
	case u.Kind == Done && !u.ahead:
		return 0, doneInterval
	}
	return 0, 0
}

// warn logs the causes that prevent the desired state.
func (l *Loader) warn(err error, _ time.Duration) {
	u, _ := errors.AsType[unsettled](err)
	for _, c := range u.Causes {
		if c.Code == cause.UpgradeInProgress {
			continue // the upgrade logs its own state
		}
		l.cfg.Log.Warn("desired driver is not ready, waiting", "subject", c.Subject, "cause", c.Text, "fix", c.Fix, "code", c.Code)
	}
}

// lost reports whether another program has removed or changed the fact of a working driver. It then
// makes Run observe the node again.
func (l *Loader) lost() bool {
	fact := l.cfg.Contract.Read(contract.DriverReady)
	lost := l.State().Kind == Done && (fact.State != contract.Valid || fact.Stamp.Writer != Name)
	if lost {
		l.Again()
	}
	return lost
}
