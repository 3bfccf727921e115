package nodestate

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	// againFirst and againMost are the delays before the Node is written again after another writer
	// has changed it, or after only notes have changed.
	againFirst = time.Second
	againMost  = 5 * time.Minute
	// stable is the time without a change by others after which the delays are short again.
	stable = 10 * time.Minute
)

// Config describes a Writer.
type Config struct {
	// Notes are keys of annotations for people. If only notes change, they are written after the
	// same delays as after a change by another writer.
	Notes []string
	// Cordon is the key of the annotation which records that this writer has cordoned the Node.
	Cordon string
	// Pause configures Writer.Pause.
	Pause Pause
	// Timestamp is the key of a label with the time of the last change of the other labels (see
	// Stamp).
	Timestamp string
	// Yields reports whether a label with this value is left to another writer that owns it. If nil, no label is.
	Yields func(key, value string) bool
	// Excludes reports whether a Node with these labels must not have a label of this writer. If nil, it may have all.
	Excludes func(labels map[string]string, key string) bool
	// Time is the clock for condition transitions and delays; nil for time.Now.
	Time func() time.Time
	Log  *slog.Logger

	// name is the name of the Node. manager is the name of the field manager: the Agent of the
	// client's config.
	name, manager string
}

// Writer writes to the Node of a client. See, Node and Watch may be called concurrently with each
// other and with one of the other methods.
type Writer struct {
	cfg Config
	api api

	mu sync.Mutex
	// there is the newest known Node, from the watch and from the answers to writes.
	there *Node

	// tried is the desired state that was last written, nil if a part of the write failed. The
	// field at has the time of that write, and due the earliest time of the next write.
	tried   *Desired
	at, due time.Time
	again   pace.Backoff
}

// New returns a Writer. It starts nothing.
func New(client *kube.Client, cfg Config) *Writer {
	cfg.name, cfg.manager = client.Node().Name, client.Agent()
	return newWriter(server{client}, cfg)
}

func newWriter(a api, cfg Config) *Writer {
	if cfg.Time == nil {
		cfg.Time = time.Now
	}
	return &Writer{cfg: cfg, api: a, again: pace.Backoff{First: againFirst, Most: againMost}}
}

// Watch follows the Node until ctx ends, and calls changed after each change. It needs the verbs
// list and watch on Nodes.
func (w *Writer) Watch(ctx context.Context, changed func()) {
	w.api.watch(ctx, func(n Node) {
		w.See(n)
		changed()
	})
}

// Read reads the Node. It needs the verb get on Nodes.
func (w *Writer) Read(ctx context.Context) (Node, error) {
	n, err := w.api.read(ctx)
	if err == nil {
		w.See(n)
	}
	return n, err
}

// See records n as the state of the Node, unless a newer state is known.
func (w *Writer) See(n Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.there == nil || !n.older(*w.there) {
		w.there = &n
	}
}

// Node returns the known state of the Node, including the changes by this writer. known is false
// before the first answer of the API server.
func (w *Writer) Node() (_ Node, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.there == nil {
		return Node{}, false
	}
	return *w.there, true
}

// forget makes the state of the Node unknown.
func (w *Writer) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.there, w.tried = nil, nil
}

var (
	errUnread      = errors.New("the Node object has not been read yet")
	errOverwritten = errors.New("another writer has changed the Node object, writing it again soon")
)

// Put writes the desired state to the Node. It sends no request if the Node has this state already.
// The result says when to call Put again, and why the Node is not in the desired state.
func (w *Writer) Put(ctx context.Context, desired Desired) (reconcile.Result, error) {
	there, known := w.Node()
	if !known {
		return reconcile.Result{Pending: errUnread}, nil
	}
	p := w.cfg.plan(there, desired)
	if p.empty() {
		return reconcile.Result{}, nil
	}
	now := w.cfg.Time()
	again, noted := w.compare(desired)
	if again || noted {
		if in := w.due.Sub(now); in > 0 {
			r := reconcile.Result{After: in}
			if again {
				r.Pending = errOverwritten
			}
			return r, nil
		}
		if again {
			w.cfg.Log.Warn("another writer has changed the node, writing it again", "plan", p, "wrote_before", now.Sub(w.at).Round(time.Second))
		}
	}
	if !again && !noted || now.Sub(w.at) > stable {
		w.again.Reset()
	}
	w.tried, w.at = nil, now
	if err := w.applyPlan(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	w.tried, w.due = &desired, now.Add(w.again.Next())
	return reconcile.Result{}, nil
}

// compare reports whether the desired state is the last written one, or differs only in notes.
func (w *Writer) compare(desired Desired) (again, noted bool) {
	if w.tried == nil {
		return false, false
	}
	// Reflection is necessary, because the desired state has maps and pointers. A new field needs
	// no code here.
	if reflect.DeepEqual(*w.tried, desired) {
		return true, false
	}
	return false, reflect.DeepEqual(w.cfg.withoutNotes(*w.tried), w.cfg.withoutNotes(desired))
}

func (c Config) withoutNotes(d Desired) Desired {
	d.Annotations = maps.Clone(d.Annotations)
	maps.DeleteFunc(d.Annotations, func(key, _ string) bool { return slices.Contains(c.Notes, key) })
	return d
}

// applyPlan makes the writes of a plan. It continues after a failed write.
func (w *Writer) applyPlan(ctx context.Context, p plan) error {
	var errs []error
	wrote := func(n Node, err error) bool {
		if err == nil {
			w.See(n)
		}
		errs = append(errs, err)
		return err == nil
	}
	log := w.cfg.Log
	if p.metadata && wrote(w.api.applyMetadata(ctx, p.labels, p.annotations)) {
		log.Info("labels of the node written", "labels", len(p.labels))
	}
	if c := p.condition; c != nil && wrote(w.api.applyCondition(ctx, c)) {
		log.Info("condition of the node written", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
	}
	if t := p.taint; t != nil && wrote(w.api.removeTaint(ctx, *t)) {
		log.Info("start-up taint removed", "taint", t.Key, "effect", t.Effect)
	}
	return errors.Join(errs...)
}

// Published selects kinds of published state.
type Published struct{ Metadata, Condition, Cordon, Pause bool }

// Withdraw removes the state that the writer has published, in this process or an earlier one, and ends its
// cordon and its pause. It retries each failed removal until ctx ends, unless the API server forbids the removal. The error
// joins the errors of all removals that have not succeeded.
func (w *Writer) Withdraw(ctx context.Context, what Published) error {
	removals := w.removals(what)
	retry := pace.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	var forbidden []error
	for {
		var failed []error
		removals = slices.DeleteFunc(removals, func(remove removal) bool {
			err := remove(ctx)
			switch {
			case apierrors.IsForbidden(err):
				forbidden = append(forbidden, err)
				return true
			case err == nil || apierrors.IsNotFound(err):
				return true
			}
			failed = append(failed, err)
			return false
		})
		if len(failed) == 0 || !retry.Pause(ctx) {
			return errors.Join(append(forbidden, failed...)...)
		}
	}
}

// removal removes one kind of published state. It sends at most one write.
type removal func(context.Context) error

func (w *Writer) removals(what Published) []removal {
	var out []removal
	if what.Metadata {
		out = append(out, func(ctx context.Context) error {
			_, err := w.api.applyMetadata(ctx, nil, nil)
			return err
		})
	}
	if what.Condition {
		out = append(out, func(ctx context.Context) error {
			_, err := w.api.applyCondition(ctx, nil)
			return err
		})
	}
	if what.Pause { // a pause creates no label, so nothing is removed
		out = append(out, w.reverts(w.Resume))
	}
	if what.Cordon {
		out = append(out, w.reverts(w.Uncordon))
	}
	return out
}

// reverts returns a removal that reads the Node and reverts a change.
func (w *Writer) reverts(revert func(context.Context, Node) error) removal {
	return func(ctx context.Context) error {
		n, err := w.Read(ctx)
		if err != nil {
			return err
		}
		return revert(ctx, n)
	}
}
