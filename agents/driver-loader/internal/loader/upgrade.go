package loader

import (
	"context"
	"slices"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/pace"
)

const (
	// patience is the default of Config.Patience.
	patience = 5 * time.Minute
	// swapInterval is how often a node is looked at meanwhile: it is cordoned.
	swapInterval = 2 * time.Second
)

// Loaded identifies the driver that is loaded. It is empty for none, and for one that this agent
// leaves alone: that of the host, or of NVIDIA's driver container.
func (l *Loader) Loaded(context.Context) (string, error) {
	o, err := l.observeDriver()
	if err != nil || o.Host != "" || o.ownedByContainer() {
		return "", err
	}
	d, err := l.cfg.Desired()
	if err != nil {
		return "", err
	}
	if next, missing := o.desired(d); missing == nil && o.Running.Version != "" && !o.differs(next) {
		return next.ID(), nil
	}
	return o.Running.ID(), nil
}

// Target identifies the driver to upgrade to. It is empty while there is none, or while something is
// in the way of it that is known before a pod has to go: then State has the causes. An upgrade
// that has begun asks only for what lasts.
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
	case !o.Built(next), len(o.obstacles(next)) > 0, !begun && !l.rehearsed().same(next):
		return "", nil
	}
	return next.ID(), nil
}

// Swap unloads the loaded driver and loads target. It waits for what uses the driver, for a
// bounded time. If target does not work, Swap has loaded the previous driver again when it returns
// the cause. The change is not finished before Validate.
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

// Validate opens the devices of the loaded driver again, and finishes its change. If it does not
// work, Validate has loaded the previous driver again when it returns the cause.
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

// RollBack loads the driver previous again, which the journal knows.
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
			Code: cause.PreviousDriverMissing, Subject: "driver " + previous, Text: "the journal does not know it",
			Fix: "choose its version, and set the annotation that requests an upgrade of the node",
		}
	case c == nil:
		_, err = l.settleWithin(ctx, d.withDriver(o.Before, false), noop)
		return err
	}
	// A driver that was not unloaded needs no way back, only what is missing of it.
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

// givenUp is the cause that a change is taken back although its driver has not failed.
func givenUp(c Change) cause.Cause {
	return cause.Cause{
		Code: cause.UpgradeGivenUp, Subject: "driver " + c.To.Version, Text: "the upgrade to it was given up, and driver " + c.From.Version + " was loaded again",
		Fix: "read the state and the cause of the upgrade on the Node",
	}
}

// withDriver returns what is desired while an upgrade changes the driver: this one.
func (d Desired) withDriver(driver Driver, hold bool) Desired {
	d.Keep, d.Upgrading, d.Instead, d.driver, d.hold = false, "", nil, &driver, hold
	return d
}

// settleWithin takes steps until the node is as desired, or something is in the way that does not go
// away by itself. first is called once, before the first step.
func (l *Loader) settleWithin(ctx context.Context, d Desired, first func() error) (Step, error) {
	limit := l.cfg.Patience
	if limit == 0 {
		limit = patience
	}
	for end := time.Now().Add(limit); ; first = noop {
		step := l.settle(ctx, func() (Desired, error) { return d, nil }, first)
		if ctx.Err() != nil {
			return step, ctx.Err()
		}
		if !step.inUse() || !time.Now().Before(end) {
			return step, nil
		}
		for _, c := range step.Causes {
			l.cfg.Log.Info("waiting for what uses the driver", "subject", c.Subject, "cause", c.Text)
		}
		pace.Pause(ctx, swapInterval)
	}
}

// inUse reports whether a step waits for processes that use the driver.
func (s Step) inUse() bool {
	return s.Kind == Wait && slices.ContainsFunc(s.Causes, func(c cause.Cause) bool { return c.Code == cause.ModuleInUse })
}

// outcome returns why a node is not as an upgrade wants it.
func outcome(s Step, err error) error {
	if err != nil || len(s.Causes) == 0 && s.Kind == Done {
		return err
	}
	if len(s.Causes) == 0 {
		return cause.New(cause.Unexpected, Name, "it waits for nothing")
	}
	return s.Causes[0]
}

// rehearsed returns the driver whose modules this process has checked as before a load.
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

// recordDrivers records what Loaded and Target depend on, and stood returns it.
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
