package loader

import (
	"context"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

// Run keeps the node as desired until ctx ends. Its end changes nothing on the node.
func (l *Loader) Run(ctx context.Context) error {
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { pci.Watch(watched, l.cfg.Kernel.Sys, l.cfg.Log, func() { pace.Signal(l.again) }) })
	watching.Go(func() { l.cfg.Contract.WatchFact(watched, contract.DriverReady, l.lost) })
	defer watching.Wait()
	defer stop()
	retry := pace.Backoff{First: 5 * time.Second, Most: 10 * time.Minute}
	var last Step
	for ctx.Err() == nil {
		pace.Drain(l.again)
		was := l.stood()
		step := l.Settle(ctx)
		rested := step.Kind == Done && !step.ahead
		if rested {
			retry.Reset()
		}
		l.log(step, last)
		if l.cfg.Settled != nil && (last.Kind == "" || was != l.stood()) {
			l.cfg.Settled()
		}
		last = step
		pause := retry.Next()
		if rested {
			pause = rest
		}
		if step.Users {
			pause = min(pause, usersAgain)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-l.again:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// lost makes Run look at the node again if another program has removed or changed the fact of
// a driver that works, and returns whether it has.
func (l *Loader) lost() bool {
	fact := l.cfg.Contract.Read(contract.DriverReady)
	lost := l.State().Kind == Done && (fact.State != contract.Valid || fact.Stamp.Writer != Name)
	if lost {
		l.Again()
	}
	return lost
}

// usersAgain is how often a node is looked at whose driver is to go when nothing uses it.
const usersAgain = 15 * time.Second

// rest is how often a node that is as desired is looked at: nothing reports that a module
// was unloaded.
const rest = time.Minute

// log logs how the node is, if that has changed.
func (l *Loader) log(step, last Step) {
	if step.Kind == Done && (last.Kind != Done || !step.Driver.same(last.Driver)) {
		l.cfg.Log.Info("driver is ready", "driver", step.Driver.Version, "modules", step.Driver.Flavour)
	}
	if slices.Equal(step.Causes, last.Causes) {
		return
	}
	for _, c := range step.Causes {
		if c.Code == Upgrading {
			continue // the upgrade logs what it does
		}
		l.cfg.Log.Warn("something is in the way", "subject", c.Subject, "cause", c.Text, "fix", c.Fix, "code", c.Code)
	}
}
