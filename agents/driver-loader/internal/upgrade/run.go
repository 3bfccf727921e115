package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"sync"
	"sync/atomic"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// Driver changes the driver of the node. Each method may be called again after the process was killed
// during a call. An error that is a cause.Cause is published unchanged.
type Driver interface {
	// Loaded returns the ID of the loaded driver, empty for none. Call Upgrade.Changed if the driver
	// changes without a call of the methods below.
	Loaded(ctx context.Context) (string, error)
	// Swap unloads the driver and loads target. It waits for users of the modules, and returns an error if
	// they do not end in time, because the node is cordoned.
	Swap(ctx context.Context, target string) error
	// Validate returns an error if the loaded driver does not work.
	Validate(ctx context.Context) error
	// RollBack loads the driver previous again.
	RollBack(ctx context.Context, previous string) error
}

// Desired is the desired state in the values of the chart.
type Desired struct {
	// Driver is the ID of the desired driver, in the form of Driver.Loaded.
	Driver string
	Policy Policy
}

// Config configures an Upgrade.
type Config struct {
	// Client writes to the Node with the field manager of the upgrade. Another writer must not use this
	// field manager, because each apply replaces the last one. Client needs the verbs get, list, watch and
	// patch on nodes.
	Client *kube.Client
	Events *kube.Events
	Driver Driver
	// Desired returns the desired state of the node. Its argument is the state of the upgrade. Call
	// Changed when the result changes.
	Desired func(State) (Desired, error)
	// Moved is called when the journal has changed. It must not block, and may be nil.
	Moved func()
	// DaemonSet is the agent's DaemonSet, as namespace/name. Board is the ConfigMap BoardName in this
	// namespace, on which Client needs the verbs list and watch.
	DaemonSet string
	Board     kube.Object
	// PauseLabel is another label of DaemonSets that hold the driver (nodestate.Pause).
	PauseLabel string
	// Optional returns the condition OptionalCondition of the Node, or nil if the Node has none. If known is
	// false, the condition does not change. Optional may be nil. The Client also needs patch on nodes/status.
	Optional func() (c *nodestate.Condition, known bool)
	// Journal is the path of the journal.
	Journal string
	Log     *slog.Logger
	// Offered returns when the device plugin of the node advertises its GPUs. It is called before the node
	// becomes schedulable, if the Node has GPUs in its capacity. If nil, the upgrade does not wait.
	Offered func(ctx context.Context) error
	// Retry has the delays after errors. The zero value means 5 s to a minute.
	Retry pace.Backoff
	// Slice is the longest eviction or wait for pods before the node is observed again.
	// Default: 1 minute. Evict is the time between lists of the pods. Default: 5 s.
	Slice, Evict time.Duration
}

// Upgrade upgrades the driver of the node.
type Upgrade struct {
	cfg  Config
	loop *reconcile.Loop
	// mu guards the journal for other goroutines. Only Run writes it.
	mu      sync.Mutex
	journal Journal
	// waiting has the reasons in the ConfigMap for DaemonSet.
	waiting atomic.Pointer[Waiting]
	// node writes to the Node, and shown is the last published state, if it is known.
	node  *nodestate.Writer
	shown *nodestate.Desired
	// blocked has the PodDisruptionBudgets in the sent Events, by pod.
	blocked map[string]string
}

// New returns an Upgrade that continues from the journal. A journal that cannot be read is replaced,
// because the Node has everything that is needed to make it schedulable again.
func New(cfg Config) *Upgrade {
	if cfg.Retry == (pace.Backoff{}) {
		cfg.Retry = pace.Backoff{First: 5 * time.Second, Most: time.Minute} //nolint:mnd // see Config
	}
	cfg.Slice, cfg.Evict = cmp.Or(cfg.Slice, defaultSlice), cmp.Or(cfg.Evict, defaultEvictInterval)
	j, err := ReadJournal(cfg.Journal)
	if err != nil {
		cfg.Log.Warn("cannot read the journal of the upgrade, starting the upgrade again", "err", err)
	}
	u := &Upgrade{cfg: cfg, journal: j, blocked: map[string]string{}}
	u.node = nodestate.New(cfg.Client, nodestate.Config{
		Notes: []string{CauseAnnotation}, Cordon: CordonedAnnotation, Log: cfg.Log,
		Pause: nodestate.Pause{Value: nodestate.PausedForDriverUpgrade, Label: cfg.PauseLabel, Annotation: PausedAnnotation},
	})
	u.loop = reconcile.New(reconcile.Config{
		Name: "upgrade", Step: u.step, Retry: cfg.Retry, Delays: kube.Delays, Patient: true, Log: cfg.Log,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Warn("cannot upgrade the driver, retrying", "state", u.journal.State, "in", in, "err", err)
		},
	})
	return u
}

// Journal returns the state of the upgrade.
func (u *Upgrade) Journal() Journal {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.journal
}

// Changed makes Run observe the node again. It is safe for concurrent use.
func (u *Upgrade) Changed() { u.loop.Wake() }

// Run upgrades the node whenever an upgrade is desired, until ctx ends. When ctx ends, the node stays
// as it is, and the next Run continues.
func (u *Upgrade) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { u.node.Watch(ctx, u.Changed) })
	following.Go(func() { u.follow(ctx) })
	u.notifyMoved()
	return u.loop.Run(ctx)
}

// Withdraw removes the published state, and ends the cordon and the pause. Call it after Run, if the agent does
// not return to the node.
func (u *Upgrade) Withdraw(ctx context.Context) error {
	return u.node.Withdraw(ctx, nodestate.Published{Metadata: true, Condition: u.cfg.Optional != nil, Cordon: true, Pause: true})
}

// step performs one action.
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
		// The Node has a new version, and the following writes require the current version.
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
		return none, failed // after a delay
	case a.Kind != Wait || !reflect.DeepEqual(j, next): // compares the causes behind the pointers
		return more, nil
	}
	return reconcile.Result{After: again}, nil
}

// write writes the journal if it has changed.
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

// runAction performs an action. It returns why the action failed, or an error if the result is not known.
func (u *Upgrade) runAction(ctx context.Context, node nodestate.Node, a Action, p Policy) (*cause.Cause, error) {
	switch a.Kind {
	case Cordon:
		return nil, u.node.Cordon(ctx, node, u.journal.Target)
	case Uncordon:
		if u.awaitPlugin(ctx, node) {
			var err error
			if node, err = u.node.Read(ctx); err != nil { // the Node may have changed in the meantime
				return nil, err
			}
		}
		return nil, u.node.Uncordon(ctx, node)
	case Pause:
		u.cfg.Log.Info("keeping DaemonSets that hold the driver off the node, until the upgrade ends")
		return nil, u.node.Pause(ctx, node, u.journal.Target)
	case Resume:
		return nil, u.node.Resume(ctx, node)
	case WaitForJobs, EvictPods, DrainNode, Swap, Validate, RollBack:
		return u.runLongAction(ctx, a, p)
	default:
		return nil, nil
	}
}

// runLongAction performs an action that can take long. An action that shutdown interrupted has not failed.
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
	return cmp.Or(failed, causeOf(subject, err)), nil
}

// swap swaps the driver, and checks that the desired driver is loaded.
func (u *Upgrade) swap(ctx context.Context, target string) error {
	if err := u.cfg.Driver.Swap(ctx, target); err != nil {
		return err
	}
	loaded, err := u.cfg.Driver.Loaded(ctx)
	if err == nil && loaded != target {
		err = fmt.Errorf("driver %q is loaded after the upgrade instead of %s", loaded, target)
	}
	return err
}

// causeOf returns the cause in an error, or a new one with its text.
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
		u.cfg.Log.Warn("the upgrade of the driver waits or has failed", "state", after.State, "cause", after.Cause.Error())
		u.sendEvent(true, after.Cause.Line())
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
