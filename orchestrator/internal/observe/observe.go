// Package observe knows what is in the cluster, by watches. It keeps a small value of each
// object that matters: a cluster of thousands of nodes has to fit into a small process.
package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// Config says what to observe.
type Config struct {
	Client *cluster.Client
	Log    *slog.Logger
}

// Observer observes a cluster. Its methods are safe for concurrent use, except that one goroutine
// calls Follow.
type Observer struct {
	cfg Config
	// Changed has a signal when something has changed.
	Changed chan struct{}
	running sync.WaitGroup

	texts    sync.Mutex
	interned interned
	// labels are labels of nodes to keep besides those of the agents.
	labels []string
	// stopNodes ends the watch of nodes.
	stopNodes context.CancelFunc

	mu       sync.Mutex
	policies *table[model.Policy]
	nodes    *table[model.Node]
	// pods are by namespace.
	pods    map[string]*table[model.Pod]
	objects map[place]*table[seen]
	// applied are the objects that this process has applied.
	applied map[model.Ref]record
	// errs say what cannot be watched, by its name.
	errs map[string]error
	// reconnected says that a watch has started since Reconnected was called.
	reconnected bool
}

// place is where objects of one kind are.
type place struct {
	gvr       schema.GroupVersionResource
	kind      schema.GroupVersionKind
	namespace string
}

func (p place) isDaemonSets() bool {
	return p.gvr == appsv1.SchemeGroupVersion.WithResource("daemonsets")
}

// New returns an Observer, which observes nothing yet.
func New(cfg Config) *Observer {
	return &Observer{
		cfg: cfg, Changed: make(chan struct{}, 1), interned: interned{},
		pods: map[string]*table[model.Pod]{}, objects: map[place]*table[seen]{},
		applied: map[model.Ref]record{}, errs: map[string]error{},
	}
}

func (o *Observer) signal() { pace.Signal(o.Changed) }

// Follow starts to observe the nodes with these labels besides those of the agents, and the kinds
// of these objects with their pods, until ctx ends. What is observed already goes on.
func (o *Observer) Follow(ctx context.Context, refs []model.Ref, labels []string) error {
	if err := o.followNodes(ctx, labels); err != nil {
		return err
	}
	for _, r := range refs {
		gvr, namespaced, err := o.cfg.Client.Mapping(r)
		if no := (*cluster.NoKindError)(nil); errors.As(err, &no) {
			continue // Applying the object names the cause.
		}
		if err != nil {
			return err
		}
		p := place{gvr: gvr, kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)}
		if namespaced {
			p.namespace = r.Namespace
		}
		if o.objects[p] != nil {
			continue
		}
		if err := o.followPlace(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// followNodes watches nodes. It lists them again if other labels are to be kept.
func (o *Observer) followNodes(ctx context.Context, labels []string) error {
	if o.nodes != nil && slices.Equal(labels, o.labels) {
		return nil
	}
	if o.stopNodes != nil {
		o.stopNodes()
	}
	ctx, o.stopNodes = context.WithCancel(ctx)
	o.texts.Lock()
	o.labels = labels
	o.texts.Unlock()
	nodes := newTable(o, o.node, sameNode)
	o.mu.Lock()
	o.nodes = nodes
	o.mu.Unlock()
	return o.typed(ctx, kind{gvr: corev1.SchemeGroupVersion.WithResource("nodes"), object: &corev1.Node{}}, nodes)
}

// followPlace watches the objects in a place, and the pods of DaemonSets.
func (o *Observer) followPlace(ctx context.Context, p place) error {
	t := newTable(o, func(m metav1.Object) (seen, bool) { return newSeen(p, m), true }, sameSeen)
	t.removed = o.forget
	pods := newTable(o, o.pod, func(a, b model.Pod) bool { return a == b })
	o.mu.Lock()
	o.objects[p] = t
	if p.isDaemonSets() {
		o.pods[p.namespace] = pods
	}
	o.mu.Unlock()
	if !p.isDaemonSets() {
		o.metadata(ctx, p, t)
		return nil
	}
	if err := o.typed(ctx, kind{p.gvr, p.namespace, selector, &appsv1.DaemonSet{}}, t); err != nil {
		return err
	}
	return o.typed(ctx, kind{corev1.SchemeGroupVersion.WithResource("pods"), p.namespace, "", &corev1.Pod{}}, pods)
}

// Listed returns nil if all that is followed is known, and otherwise what is not, and why.
func (o *Observer) Listed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.errs)) {
		return fmt.Errorf("watch %s: %w", name, o.errs[name])
	}
	waits := map[string]bool{}
	if o.policies != nil {
		waits["clusterpolicies"] = !o.policies.listed
	}
	if o.nodes != nil {
		waits["nodes"] = !o.nodes.listed
	}
	for namespace, t := range o.pods {
		waits["pods in "+namespace] = !t.listed
	}
	for p, t := range o.objects {
		waits[p.gvr.Resource] = waits[p.gvr.Resource] || !t.listed
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		if waits[name] {
			return fmt.Errorf("the API server has not listed the %s yet", name)
		}
	}
	return nil
}

// Reconnected reports whether a watch has started since the last call: it may be another API server
// that answers now.
func (o *Observer) Reconnected() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.reconnected
	o.reconnected = false
	return was
}

// Wait waits until all watches have ended, after the end of the context of Follow.
func (o *Observer) Wait() { o.running.Wait() }

// State adds to a policy what is in the cluster now.
func (o *Observer) State(policy model.Policy, now time.Time) model.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := model.State{Policy: policy, Now: now, Objects: o.seen(), DaemonSets: map[model.Ref]*model.DaemonSet{}}
	if o.nodes != nil {
		s.Nodes = slices.AppendSeq(make([]*model.Node, 0, len(o.nodes.rows)), maps.Values(o.nodes.rows))
		slices.SortFunc(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, t := range o.pods {
		s.Pods = slices.AppendSeq(slices.Grow(s.Pods, len(t.rows)), maps.Values(t.rows))
	}
	for p, t := range o.objects {
		if !p.isDaemonSets() {
			continue
		}
		for _, row := range t.rows {
			ds := row.daemonSet
			// What was seen before it was applied is not current.
			ds.Current = ds.Current && row.version >= o.applied[row.Ref].version
			s.DaemonSets[row.Ref] = &ds
		}
	}
	return s
}
