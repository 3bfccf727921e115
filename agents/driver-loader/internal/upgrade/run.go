package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect" // DeepEqual: slices, maps or pointers are in the values
	"sync"
	"sync/atomic"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// Driver is the part of the loader that an upgrade needs. Each method may be called again
// after the process was killed in it. An error that is a cause.Cause is shown as it is.
type Driver interface {
	// Loaded identifies the driver that is loaded; empty for none. Call Upgrade.Changed when it
	// changes by something else than the methods below.
	Loaded(ctx context.Context) (string, error)
	// Swap unloads the driver and loads target. It waits for what holds the modules, and returns
	// an error when it gives up: the node is cordoned meanwhile.
	Swap(ctx context.Context, target string) error
	// Validate says why the loaded driver does not work.
	Validate(ctx context.Context) error
	// RollBack loads the driver previous again.
	RollBack(ctx context.Context, previous string) error
}

// Desired is what the values of the chart ask for.
type Desired struct {
	// Driver identifies the desired driver, in the terms of Driver.Loaded.
	Driver string
	Policy Policy
}

// Config is what an Upgrade needs.
type Config struct {
	// Client writes as the field manager of the upgrade. Nothing else may apply to the Node as the
	// same one: each apply replaces the last. Its role needs the verbs get, list, watch and patch
	// on nodes.
	Client *kube.Client
	Events *kube.Events
	Driver Driver
	// Desired returns what is desired now, for an upgrade in a state. Call Changed when it changes.
	Desired func(State) (Desired, error)
	// Moved is called when the journal has changed, and must not block; nil for nothing.
	Moved func()
	// DaemonSet names the DaemonSet of the agent, as namespace/name. Board is the ConfigMap BoardName
	// in this namespace (verbs list and watch).
	DaemonSet string
	Board     kube.Object
	// Journal is the path of the journal.
	Journal string
	Log     *slog.Logger
	// Offered returns when the device plugin of the node offers its GPUs. It is asked on a Node
	// that has GPUs in its capacity, before pods may come back. nil does not wait.
	Offered func(ctx context.Context) error
	// Retry has the delays after errors; zero for 5 s to a minute.
	Retry pace.Backoff
	// Slice is the longest time for which pods are evicted or awaited at a stretch; 0 for a minute.
	// Evict is the time between two looks at them; 0 for 5 s.
	Slice, Evict time.Duration
}

// Upgrade upgrades the driver of the node.
type Upgrade struct {
	cfg  Config
	loop *reconcile.Loop
	// mu guards the journal, which Run writes and reads, for other goroutines.
	mu      sync.Mutex
	journal Journal
	// waiting is the entry of the board for DaemonSet.
	waiting atomic.Pointer[Waiting]
	// node writes to the Node, and shown is what was published last, if that is known.
	node  *nodestate.Writer
	shown *nodestate.Desired
	// blocked are the PodDisruptionBudgets that Events named, by pod.
	blocked map[string]string
}

// New returns an Upgrade, with the journal of the process before. A journal that cannot be read
// is replaced: what the Node says suffices to make it schedulable again.
func New(cfg Config) *Upgrade {
	if cfg.Retry == (pace.Backoff{}) {
		cfg.Retry = pace.Backoff{First: 5 * time.Second, Most: time.Minute} //nolint:mnd // see Config
	}
	cfg.Slice, cfg.Evict = cmp.Or(cfg.Slice, defaultSlice), cmp.Or(cfg.Evict, defaultEvictInterval)
	j, err := ReadJournal(cfg.Journal)
	if err != nil {
		cfg.Log.Warn("the journal of the upgrade is lost, beginning again", "err", err)
	}
	u := &Upgrade{cfg: cfg, journal: j, blocked: map[string]string{}}
	u.node = nodestate.New(cfg.Client, nodestate.Config{Notes: []string{CauseAnnotation}, Cordon: CordonedAnnotation, Log: cfg.Log})
	u.loop = reconcile.New(reconcile.Config{
		Name: "upgrade", Step: u.step, Retry: cfg.Retry, Delays: kube.Delays, Patient: true, Log: cfg.Log,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Warn("cannot upgrade the driver, retrying", "state", u.journal.State, "in", in, "err", err)
		},
	})
	return u
}

// Journal returns where the upgrade is.
func (u *Upgrade) Journal() Journal {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.journal
}

// Changed makes Run look again. It is safe for concurrent use.
func (u *Upgrade) Changed() { u.loop.Wake() }

// Run upgrades the node whenever that is desired, until ctx ends. The end of ctx changes nothing
// on the node: the next Run goes on.
func (u *Upgrade) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { u.node.Watch(ctx, u.Changed) })
	following.Go(func() { u.follow(ctx) })
	u.notifyMoved()
	return u.loop.Run(ctx)
}

// Withdraw removes what the upgrade has published, and the cordon. It is for an agent that does not
// come back to the node, after Run.
func (u *Upgrade) Withdraw(ctx context.Context) error {
	return u.node.Withdraw(ctx, nodestate.Published{Metadata: true, Cordon: true})
}

// step takes one action.
func (u *Upgrade) step(ctx context.Context) (reconcile.Result, error) {
	more, none := reconcile.Result{After: -1}, reconcile.Result{}
	node, o, p, err := u.observe(ctx)
	if err != nil {
		return none, err
	}
	j := u.journal
	if o.Node.Requested && (j.State.Active() || j.State == Done) {
		return more, u.node.RemoveAnnotation(ctx, node, RequestedAnnotation)
	}
	wrote, again, err := u.publish(ctx, node)
	if err != nil {
		return none, err
	}
	if wrote {
		// The Node is another one now, and what follows writes only to the one that it knows.
		if node, o, p, err = u.observe(ctx); err != nil {
			return none, err
		}
	}
	a := Next(j, o, p)
	if err := u.write(Begin(j, a)); err != nil {
		return none, err
	}
	failed, err := u.runAction(ctx, node, a, p)
	if err != nil {
		return none, err
	}
	next := After(u.journal, o, a, p, Result{Failed: failed, At: time.Now()})
	if err := u.write(next); err != nil {
		return none, err
	}
	u.report(j, next)
	switch {
	case failed != nil && next.State == j.State && failed.Code != cause.WaitingForPods:
		return none, failed // with a pause
	case a.Kind != Wait || !reflect.DeepEqual(j, next): // a journal has a cause behind a pointer
		return more, nil
	}
	return reconcile.Result{After: again}, nil
}

// write writes a journal that differs.
func (u *Upgrade) write(j Journal) error {
	if reflect.DeepEqual(j, u.journal) {
		return nil
	}
	if err := j.Write(u.cfg.Journal); err != nil {
		return err
	}
	u.mu.Lock()
	u.journal = j
	u.mu.Unlock()
	u.notifyMoved()
	return nil
}

func (u *Upgrade) notifyMoved() {
	if u.cfg.Moved != nil {
		u.cfg.Moved()
	}
}

// runAction takes an action. It returns why the action failed, or an error if it does not know.
func (u *Upgrade) runAction(ctx context.Context, node nodestate.Node, a Action, p Policy) (*cause.Cause, error) {
	switch a.Kind {
	case Cordon:
		return nil, u.node.Cordon(ctx, node, u.journal.Target)
	case Uncordon:
		if u.awaitPlugin(ctx, node) {
			var err error
			if node, err = u.node.Read(ctx); err != nil { // it has changed meanwhile
				return nil, err
			}
		}
		return nil, u.node.Uncordon(ctx, node)
	case WaitForJobs, EvictPods, DrainNode, Swap, Validate, RollBack:
		return u.runLongAction(ctx, a, p)
	default:
		return nil, nil
	}
}

// runLongAction takes an action that may last. One that the end of this process ended has not failed.
func (u *Upgrade) runLongAction(ctx context.Context, a Action, p Policy) (failed *cause.Cause, err error) {
	switch a.Kind {
	case Swap:
		err = u.swap(ctx, u.journal.Target)
	case Validate:
		err = u.cfg.Driver.Validate(ctx)
	case RollBack:
		err = u.cfg.Driver.RollBack(ctx, u.journal.Previous)
	default:
		failed = u.clearPods(ctx, u.journal, a, p, time.Now())
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	subject := "upgrade to driver " + u.journal.Target
	if a.Kind == RollBack {
		subject = "driver " + u.journal.Previous
	}
	return first(failed, causeOf(subject, err)), nil
}

// swap swaps the driver, and looks whether it is the desired one.
func (u *Upgrade) swap(ctx context.Context, target string) error {
	if err := u.cfg.Driver.Swap(ctx, target); err != nil {
		return err
	}
	loaded, err := u.cfg.Driver.Loaded(ctx)
	if err == nil && loaded != target {
		err = fmt.Errorf("driver %q is loaded after the upgrade to %s", loaded, target)
	}
	return err
}

// causeOf returns the cause that an error is, or one made of it.
func causeOf(subject string, err error) *cause.Cause {
	if err == nil {
		return nil
	}
	if c, is := errors.AsType[cause.Cause](err); is {
		return &c
	}
	return &cause.Cause{Code: cause.UpgradeFailed, Subject: subject, Text: err.Error()}
}

// report logs a change of the state, and sends it as an Event.
func (u *Upgrade) report(before, after Journal) {
	if after.Cause != nil && (before.Cause == nil || before.Cause.Code != after.Cause.Code) && after.Cause.Code != cause.WaitingForUpgradeSlot {
		u.cfg.Log.Warn("the upgrade of the driver has a problem", "state", after.State, "cause", after.Cause.Error())
		u.sendEvent(true, after.Cause.Error())
	}
	if before.State == after.State {
		return
	}
	u.cfg.Log.Info("upgrade of the driver", "state", after.State, "before", before.State, "target", after.Target)
	if after.State.Label() != before.State.Label() && after.State != Idle {
		u.sendEvent(after.State == Failed, fmt.Sprintf("upgrade to driver %s: %s", after.Target, after.State.Label()))
	}
}

func (u *Upgrade) sendEvent(warning bool, message string) {
	u.cfg.Events.Report(kube.Event{Warning: warning, Reason: EventReason, Message: message})
}
