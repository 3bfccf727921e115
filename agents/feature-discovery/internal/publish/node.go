package publish

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect" // DeepEqual: slices, maps or pointers are in the values
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
	// stable is how long the Node has to stay as written before the next overwrite by
	// another writer is reverted without an extra delay.
	stable = 10 * time.Minute
)

// Nodes reads and writes the Node object of this node.
type Nodes interface {
	WatchNode(ctx context.Context, deliver func(object.Node))
	ApplyLabels(ctx context.Context, labels map[string]string) error
	ApplyCondition(ctx context.Context, c object.Condition) error
	RemoveCondition(ctx context.Context) error
	RemoveTaint(ctx context.Context, t object.Taint) error
}

var _ Nodes = (*object.Client)(nil)

// NodeConfig describes a Node.
type NodeConfig struct {
	Stamper
	API Nodes
	// Manager is the field manager of API.
	Manager string
	// Yields reports whether a label is left to another writer that owns it. Nil
	// means that none is.
	Yields func(key string) bool
	// Taint is removed once the condition is true, and never added. If it has no
	// key, no taint is removed.
	Taint object.Taint
	// Time is the clock of condition transitions and retries.
	Time Clock
	Log  *slog.Logger
}

// Node keeps the Node object as desired, whoever changes it. It sends no request
// while the object is as desired.
type Node struct {
	target
	cfg NodeConfig
	// seen is the Node that was observed last, nil once a step has it.
	seen atomic.Pointer[object.Node]
	// failed is why the last write failed in part.
	failed reconcile.Status

	// What follows is owned by the goroutine of Run. there is the Node as it was last seen,
	// with what was written since.
	there *object.Node
	// tried is the desired state that was last written, at is when, and due is when it may be
	// written again if another writer has changed it.
	tried       *Desired
	at, due     time.Time
	overwritten pace.Backoff
}

// NewNode returns a Node; it does nothing before Run or Once.
func NewNode(cfg NodeConfig) *Node {
	n := &Node{cfg: cfg, overwritten: pace.Backoff{First: retryMin, Most: retryMax}}
	n.reconcile(reconcile.Config{
		Name: "node", Starting: errUnread, Retry: pace.Backoff{First: retryMin, Most: retryMax}, Delays: kube.Delays,
		Log: cfg.Log,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Error("cannot write the node, retrying", "in", in, "err", err)
		},
	}, n.step)
	return n
}

var (
	errUnread      = errors.New("the Node object has not been read yet")
	errOverwritten = errors.New("another writer has changed the Node object, writing it again soon")
)

// Withdraw removes what the agent has written to the Node: the labels, the condition, or both.
func (n *Node) Withdraw(ctx context.Context, labels, condition bool) error {
	var errs []error
	if labels {
		errs = append(errs, n.cfg.API.ApplyLabels(ctx, nil))
	}
	if condition {
		errs = append(errs, n.cfg.API.RemoveCondition(ctx))
	}
	return errors.Join(errs...)
}

// Run keeps the Node until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	// The Node of an earlier Run is outdated.
	n.seen.Store(nil)
	n.there, n.tried = nil, nil
	n.failed.Set(nil)
	n.published.Store(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { n.cfg.API.WatchNode(ctx, n.observe) })
	return n.loop.Run(ctx)
}

// observe takes the Node as it is now. It does not end the delay after a write that failed: a
// Node that others change all the time is no reason to hurry.
func (n *Node) observe(there object.Node) {
	n.seen.Store(&there)
	if n.failed.Err() == nil {
		n.loop.Wake()
	}
}

// Once makes the Node as desired, and returns nil once it is.
func (n *Node) Once(ctx context.Context, w Desired) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	var there *object.Node
	n.cfg.API.WatchNode(watch, func(node object.Node) {
		if there == nil {
			there = &node
			cancel()
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return n.do(ctx, n.planOf(*there, w), there)
}

// step writes what is due.
func (n *Node) step(ctx context.Context, desired Desired) (reconcile.Result, error) {
	if there := n.seen.Swap(nil); there != nil {
		n.there = there
	}
	if n.there == nil {
		return reconcile.Result{Pending: errUnread}, nil
	}
	p := n.planOf(*n.there, desired)
	if p.empty() {
		return n.result(nil)
	}
	now := n.cfg.Time()
	// Reflection, because the desired state has maps and slices: a new field counts without a line here.
	again := n.tried != nil && reflect.DeepEqual(*n.tried, desired)
	if again && n.failed.Err() == nil {
		// The Node was written and differs: another writer has changed it, or the Node
		// that was seen is older than the write. Neither is answered at once.
		if in := n.due.Sub(now); in > 0 {
			return reconcile.Result{After: in, Pending: errOverwritten}, nil
		}
		n.cfg.Log.Warn("another writer has changed the node, writing it again", "plan", p, "wrote_before", now.Sub(n.at).Round(time.Second))
	}
	if !again || now.Sub(n.at) > stable {
		n.overwritten.Reset()
	}
	err := n.do(ctx, p, n.there)
	n.tried, n.at = &desired, now
	if err == nil {
		n.due = now.Add(n.overwritten.Next())
	}
	return n.result(err)
}

// result records the result of a step.
func (n *Node) result(err error) (reconcile.Result, error) {
	if n.failed.Set(err) && err == nil {
		return reconcile.Result{After: -1}, nil // what was observed meanwhile has caused no step
	}
	return reconcile.Result{}, err
}

// do carries out a plan, and updates there with each write that succeeds. It goes on
// after a write that fails.
func (n *Node) do(ctx context.Context, p plan, there *object.Node) error {
	var errs []error
	if p.labels != nil {
		err := n.cfg.API.ApplyLabels(ctx, p.labels)
		if err == nil {
			n.cfg.Log.Info("labels of the node written", "labels", len(p.labels))
			n.wrote(there, p.labels)
		}
		errs = append(errs, err)
	}
	if c := p.condition; c != nil {
		err := n.cfg.API.ApplyCondition(ctx, *c)
		if err == nil {
			n.cfg.Log.Info("condition of the node written", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
			there.Conditions = slices.DeleteFunc(slices.Clone(there.Conditions), func(old object.Condition) bool { return old.Type == c.Type })
			there.Conditions = append(there.Conditions, *c)
		}
		errs = append(errs, err)
	}
	if t := p.taint; t != nil {
		err := n.cfg.API.RemoveTaint(ctx, *t)
		if err == nil {
			n.cfg.Log.Info("start-up taint removed", "taint", t.Key, "effect", t.Effect)
			there.Taints = slices.DeleteFunc(slices.Clone(there.Taints), func(old object.Taint) bool { return old.Key == t.Key && old.Effect == t.Effect })
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// wrote updates there after labels were applied: the API server has removed labels
// that only the manager owned and that were not among them.
func (n *Node) wrote(there *object.Node, labels map[string]string) {
	there.Labels, there.Owners = maps.Clone(there.Labels), maps.Clone(there.Owners)
	if there.Labels == nil {
		there.Labels = map[string]string{}
	}
	if there.Owners == nil {
		there.Owners = map[string][]string{}
	}
	for key, owners := range there.Owners {
		others := slices.DeleteFunc(slices.Clone(owners), func(o string) bool { return o == n.cfg.Manager })
		if len(others) == len(owners) {
			continue
		}
		there.Owners[key] = others
		if _, named := labels[key]; !named && len(others) == 0 {
			delete(there.Labels, key)
			delete(there.Owners, key)
		}
	}
	for key, value := range labels {
		there.Labels[key] = value
		there.Owners[key] = append(slices.Clone(there.Owners[key]), n.cfg.Manager)
	}
}

// LogValue lists the writes of the plan.
func (p plan) LogValue() slog.Value {
	var parts []string
	if p.labels != nil {
		parts = append(parts, "labels")
	}
	if p.condition != nil {
		parts = append(parts, "condition")
	}
	if p.taint != nil {
		parts = append(parts, "taint")
	}
	return slog.StringValue(strings.Join(parts, ","))
}
