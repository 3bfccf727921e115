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

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
	// calm is how long the Node has to stay as it was made, before another
	// writer that undoes it is met as fast as the first time.
	calm = 10 * time.Minute
)

// Nodes is the own Node at the API server.
type Nodes interface {
	WatchNode(ctx context.Context, deliver func(kube.Node)) error
	ApplyLabels(ctx context.Context, labels map[string]string) error
	ApplyCondition(ctx context.Context, c kube.Condition) error
	RemoveTaint(ctx context.Context, t kube.Taint) error
}

var _ Nodes = (*kube.Client)(nil)

// NodeConfig says how the own Node is kept.
type NodeConfig struct {
	Stamper
	API Nodes
	// Manager is the name under which API applies.
	Manager string
	// Yields reports whether a label is left to another writer that has it. Nil
	// is never.
	Yields func(key string) bool
	// Taint is removed once the condition is true, and never put back. Without a
	// key there is none.
	Taint kube.Taint
	// Time gives that of a condition.
	Time Clock
	// Log is told what was written, and what could not be.
	Log *slog.Logger
}

// Node keeps the own Node as it is wanted, whoever changes it. It asks for
// nothing while the Node is right.
type Node struct {
	*wish
	cfg   NodeConfig
	there pace.Latest[kube.Node]
}

// NewNode returns a Node; it does nothing before Run or Once.
func NewNode(cfg NodeConfig) *Node {
	return &Node{wish: newWish(errUnread), cfg: cfg, there: pace.NewLatest[kube.Node]()}
}

var (
	errUnread = errors.New("the Node object has not been read yet")
	errUndone = errors.New("another writer has changed the Node object, which is set right again soon")
)

// Run keeps the Node until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	_, tell := n.take()
	tell(errUnread) // what an earlier Run read is old
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.cfg.API.WatchNode(ctx, n.there.Put) })
	g.Go(func() error { n.keep(ctx); return nil })
	return g.Wait()
}

// Once makes the Node as it is wanted, and returns nil when it is.
func (n *Node) Once(ctx context.Context, w Wanted) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	var there kube.Node
	known := false
	err := n.cfg.API.WatchNode(watch, func(node kube.Node) {
		if !known {
			there, known = node, true
			cancel()
		}
	})
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return n.do(ctx, n.planOf(there, w), &there)
}

// keeping is what keep remembers from one step to the next.
type keeping struct {
	// there is the Node as it was seen last, with what was written since.
	there *kube.Node
	// tried is what the Node was written for last, when that was, and when it may
	// be for the same again.
	tried   *Wanted
	at, due time.Time
	// failed is why not all could be written.
	failed error
	// failing and undone pace what fails, and what is undone by others.
	failing, undone pace.Backoff
}

func (n *Node) keep(ctx context.Context) {
	k := keeping{
		failing: pace.Backoff{First: retryMin, Most: retryMax},
		undone:  pace.Backoff{First: retryMin, Most: retryMax},
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

// step does what is to be done now, and returns when to look again, 0 for not
// before something changes.
func (n *Node) step(ctx context.Context, k *keeping) time.Duration {
	w, tell := n.take()
	if k.there == nil {
		return 0
	}
	p := n.planOf(*k.there, w)
	if p.empty() {
		tell(nil)
		k.failed = nil
		k.failing.Reset()
		return 0
	}
	now := n.cfg.Time()
	again := k.tried != nil && reflect.DeepEqual(*k.tried, w)
	// It was made so, and is not: another writer has undone it, or what was seen
	// is older than what was written. Neither is met at once.
	undone := again && k.failed == nil
	if undone {
		tell(errUndone)
	}
	if again && now.Before(k.due) {
		return k.due.Sub(now)
	}
	if undone {
		n.cfg.Log.Warn("another writer has changed the node, setting it right", "plan", p, "wrote_before", now.Sub(k.at).Round(time.Second))
	}
	if !again || now.Sub(k.at) > calm {
		k.undone.Reset()
	}
	in := n.write(ctx, k, p)
	tell(k.failed)
	k.tried, k.at, k.due = &w, now, now.Add(in)
	if k.failed == nil {
		return 0 // until somebody undoes it
	}
	return in
}

// write carries out a plan, and returns for how long the same is not written
// again. A failure is told once.
func (n *Node) write(ctx context.Context, k *keeping, p plan) time.Duration {
	was := k.failed
	k.failed = n.do(ctx, p, k.there)
	if k.failed == nil {
		k.failing.Reset()
		return k.undone.Next()
	}
	in := k.failing.Next()
	if ctx.Err() == nil && (was == nil || was.Error() != k.failed.Error()) {
		n.cfg.Log.Error("the node cannot be written, trying again", "in", in, "err", k.failed)
	}
	return in
}

// do carries out a plan, and notes in there what was written. A part that fails
// keeps no other from being written.
func (n *Node) do(ctx context.Context, p plan, there *kube.Node) error {
	var errs []error
	if p.labels != nil {
		err := n.cfg.API.ApplyLabels(ctx, p.labels)
		if err == nil {
			n.cfg.Log.Info("labels of the node are written", "labels", len(p.labels))
			n.wrote(there, p.labels)
		}
		errs = append(errs, err)
	}
	if c := p.condition; c != nil {
		err := n.cfg.API.ApplyCondition(ctx, *c)
		if err == nil {
			n.cfg.Log.Info("condition of the node is written", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
			there.Conditions = slices.DeleteFunc(slices.Clone(there.Conditions), func(old kube.Condition) bool { return old.Type == c.Type })
			there.Conditions = append(there.Conditions, *c)
		}
		errs = append(errs, err)
	}
	if t := p.taint; t != nil {
		err := n.cfg.API.RemoveTaint(ctx, *t)
		if err == nil {
			n.cfg.Log.Info("start-up taint is removed", "taint", t.Key, "effect", t.Effect)
			there.Taints = slices.DeleteFunc(slices.Clone(there.Taints), func(old kube.Taint) bool { return old.Key == t.Key && old.Effect == t.Effect })
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// wrote notes labels that were applied, and that those are gone which the
// manager alone owned and did not name.
func (n *Node) wrote(there *kube.Node, labels map[string]string) {
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

// LogValue tells the plan in a log.
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
