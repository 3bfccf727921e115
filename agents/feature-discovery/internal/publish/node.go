package publish

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
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
	*target
	cfg   NodeConfig
	there pace.Latest[object.Node]
}

// NewNode returns a Node; it does nothing before Run or Once.
func NewNode(cfg NodeConfig) *Node {
	return &Node{target: newTarget(errUnread), cfg: cfg, there: pace.NewLatest[object.Node]()}
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
	_, report := n.take()
	report(errUnread) // the Node of an earlier Run is outdated
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { n.cfg.API.WatchNode(ctx, n.there.Put); return nil })
	g.Go(func() error { n.keep(ctx); return nil })
	return g.Wait()
}

// Once makes the Node as desired, and returns nil once it is.
func (n *Node) Once(ctx context.Context, w Desired) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	var there object.Node
	known := false
	n.cfg.API.WatchNode(watch, func(node object.Node) {
		if !known {
			there, known = node, true
			cancel()
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return n.do(ctx, n.planOf(there, w), &there)
}

// keeping is the state of keep.
type keeping struct {
	// there is the Node as it was last seen, with what was written since.
	there *object.Node
	// tried is the desired state that was last written, at is when, and due is when
	// it may be written again.
	tried   *Desired
	at, due time.Time
	// failed is why the last write failed in part.
	failed error
	// failing and overwritten are the delays after failures, and after overwrites
	// by others.
	failing, overwritten pace.Backoff
}

func (n *Node) keep(ctx context.Context) {
	k := keeping{
		failing:     pace.Backoff{First: retryMin, Most: retryMax},
		overwritten: pace.Backoff{First: retryMin, Most: retryMax},
	}
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case there := <-n.there:
			k.there = &there
		case <-n.changed:
		case <-again.C:
		}
		if in := n.step(ctx, &k); in > 0 {
			again.Reset(in)
		} else {
			again.Stop()
		}
	}
}

// step writes what is due, and returns when to call it again; 0 means after the
// next change.
func (n *Node) step(ctx context.Context, k *keeping) time.Duration {
	desired, report := n.take()
	if k.there == nil {
		return 0
	}
	p := n.planOf(*k.there, desired)
	if p.empty() {
		report(nil)
		k.failed = nil
		k.failing.Reset()
		return 0
	}
	now := n.cfg.Time()
	// Reflection, because the desired state has maps and slices: a new field counts without a line here.
	again := k.tried != nil && reflect.DeepEqual(*k.tried, desired)
	// The Node was written and differs: another writer has changed it, or the Node
	// that was seen is older than the write. Neither is answered at once.
	overwritten := again && k.failed == nil
	if overwritten {
		report(errOverwritten)
	}
	if (again || kube.RetryAfter(k.failed) > 0) && now.Before(k.due) {
		return k.due.Sub(now)
	}
	if overwritten {
		n.cfg.Log.Warn("another writer has changed the node, writing it again", "plan", p, "wrote_before", now.Sub(k.at).Round(time.Second))
	}
	if !again || now.Sub(k.at) > stable {
		k.overwritten.Reset()
	}
	in := n.write(ctx, k, p)
	report(k.failed)
	k.tried, k.at, k.due = &desired, now, now.Add(in)
	if k.failed == nil {
		return 0 // until another writer changes it
	}
	return in
}

// write carries out a plan, and returns when the same state may be written again.
// It logs a failure once.
func (n *Node) write(ctx context.Context, k *keeping, p plan) time.Duration {
	was := k.failed
	k.failed = n.do(ctx, p, k.there)
	if k.failed == nil {
		k.failing.Reset()
		return k.overwritten.Next()
	}
	in := kube.RetryIn(&k.failing, k.failed)
	if ctx.Err() == nil && (was == nil || was.Error() != k.failed.Error()) {
		n.cfg.Log.Error("cannot write the node, retrying", "in", in, "err", k.failed)
	}
	return in
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
