package loader

import (
	"cmp"
	"context"
	"slices"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/pace"
)

const (
	// patience is the default of Config.Patience.
	patience = 5 * time.Minute
	// swapInterval is the time between observations during a swap. It is short, because
	// the node is cordoned.
	swapInterval = 2 * time.Second
)

// Loaded returns the ID of the loaded driver. It is empty without a driver, and for a driver that this
// agent does not manage: a driver of the host, of NVIDIA's driver container, or of another program.
func (l *Loader) Loaded(context.Context) (string, error) {
	o, err := l.observeDriver()
	if err != nil || o.Host != "" || o.ownedByContainer() {
		return "", err
	}
	d, err := l.cfg.Desired()
	if err != nil || o.foreign(d) {
		return "", err
	}
	if next, missing := o.desired(d); missing == nil && o.Running.Version != "" && !o.differs(next) {
		return next.ID(), nil
	}
	return o.Running.ID(), nil
}

// Target returns the ID of the driver to upgrade to. It is empty if no driver is desired, or if a known
// cause prevents the upgrade before pods are evicted. State then has the causes. If begun is set, Target
// does not require that this process has checked the modules (Rehearse).
func (l *Loader) Target(begun bool) (string, error) {
	o, d, err := l.observeDriverAndDesired()
	if err != nil {
		return "", err
	}
	next := o.Desired(d)
	switch {
	case next.Version == "", o.Host != "", o.ownedByContainer(), len(o.GPUs()) == 0:
		return "", nil
	case !o.differs(next):
		return next.ID(), nil
	case o.foreign(d), !o.Built(next), len(o.obstacles(next)) > 0, !begun && !l.rehearsed().same(next):
		return "", nil
	}
	return next.ID(), nil
}

// Swap unloads the loaded driver and loads target. It waits for users of the driver until the patience
// ends. If target does not work, Swap loads the previous driver again before it returns the cause.
// Validate finishes the change.
func (l *Loader) Swap(ctx context.Context, target string) error {
	o, d, err := l.observeDriverAndDesired()
	if err != nil {
		return err
	}
	next, missing := o.desired(d)
	switch {
	case missing != nil:
		return *missing
	case next.ID() != target:
		return cause.New(cause.UpgradeGivenUp, "upgrade to driver "+target, "driver "+next.ID()+" is desired now")
	}
	step, err := l.settleWithin(ctx, d.withDriver(next, true), l.journal.forgive)
	return outcome(step, err)
}

// Validate opens the devices of the loaded driver again, and finishes its change. If the driver does not
// work, Validate loads the previous driver again before it returns the cause.
func (l *Loader) Validate(ctx context.Context) error {
	o, d, err := l.observeDriverAndDesired()
	if err != nil {
		return err
	}
	is := o.Running
	if o.Change != nil {
		is = o.Change.To
	}
	forget := func() error {
		l.validated = Driver{}
		return nil
	}
	step, err := l.settleWithin(ctx, d.withDriver(is, false), forget)
	return outcome(step, err)
}

// RollBack loads the previous driver again. The journal must have it.
func (l *Loader) RollBack(ctx context.Context, previous string) error {
	o, d, err := l.observeDriverAndDesired()
	if err != nil {
		return err
	}
	c := o.Change
	switch {
	case c == nil && o.Running.ID() == previous:
		return nil
	case c == nil && o.Before.ID() != previous:
		return cause.Cause{
			Code: cause.PreviousDriverMissing, Subject: "driver " + previous, Text: "the journal has no record of it",
			Fix: "set its version as the desired driver, and set the annotation that requests an upgrade of the node",
		}
	case c == nil:
		_, err = l.settleWithin(ctx, d.withDriver(o.Before, false), noop)
		return err
	}
	// If the previous driver was not unloaded, only its missing parts are restored.
	stays := o.Running.Version != "" && !o.differs(c.From)
	giveUp := func() error {
		return l.journal.edit(func(r *record) {
			switch {
			case r.Change == nil || r.Change.Failed != nil:
			case stays:
				r.Change = nil
			default:
				why := givenUp(*r.Change)
				r.Change.Failed = &why
			}
		})
	}
	to := d.withDriver(c.To, false)
	if stays {
		to.Keep = true
	}
	step, err := l.settleWithin(ctx, to, giveUp)
	if err == nil && step.Kind != Done {
		err = outcome(step, nil)
	}
	return err
}

func noop() error { return nil }

// givenUp returns the cause for a change that is rolled back although its driver has not failed.
func givenUp(c Change) cause.Cause {
	return cause.Cause{
		Code: cause.UpgradeGivenUp, Subject: "driver " + c.To.Version, Text: "the upgrade to it was canceled, and driver " + c.From.Version + " was loaded again",
		Fix: "read the state and the cause of the upgrade on the Node",
	}
}

// withDriver returns the desired state during an upgrade, which desires exactly this driver.
func (d Desired) withDriver(driver Driver, hold bool) Desired {
	d.Keep, d.Upgrading, d.Instead, d.driver, d.hold = false, "", nil, &driver, hold
	return d
}

// settleWithin settles the node. It tries again while the driver is in use, until the patience ends. It
// calls the function first once, before the first step.
func (l *Loader) settleWithin(ctx context.Context, d Desired, first func() error) (Step, error) {
	for end := time.Now().Add(cmp.Or(l.cfg.Patience, patience)); ; first = noop {
		step := l.settle(ctx, func() (Desired, error) { return d, nil }, first)
		if ctx.Err() != nil {
			return step, ctx.Err()
		}
		if !step.inUse() || !time.Now().Before(end) {
			return step, nil
		}
		for _, c := range step.Causes {
			l.cfg.Log.Info("waiting for a process that uses the driver", "subject", c.Subject, "cause", c.Text)
		}
		pace.Pause(ctx, swapInterval)
	}
}

// inUse reports whether a step waits for processes that use the driver.
func (s Step) inUse() bool {
	return s.Kind == Wait && slices.ContainsFunc(s.Causes, func(c cause.Cause) bool { return c.Code == cause.ModuleInUse })
}

// outcome returns why a step did not reach the state that an upgrade needs, or nil.
func outcome(s Step, err error) error {
	if err != nil || len(s.Causes) == 0 && s.Kind == Done {
		return err
	}
	if len(s.Causes) == 0 {
		return cause.New(cause.Unexpected, Name, "the loader waits without a cause")
	}
	return s.Causes[0]
}

// rehearsed returns the driver whose modules were checked last.
func (l *Loader) rehearsed() Driver {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checked
}

func (l *Loader) setRehearsed(d Driver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checked = d
}

// recordDrivers records the values that Loaded and Target depend on. recordedDrivers returns them.
func (l *Loader) recordDrivers(o Observation, d Desired) {
	next, _ := o.desired(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drivers = o.Running.ID() + " " + next.ID() + " " + l.checked.ID()
}

func (l *Loader) recordedDrivers() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drivers
}
