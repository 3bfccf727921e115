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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/pace"
)

// Observer observes a cluster. Its methods are safe for concurrent use, except that one goroutine
// calls Follow.
type Observer struct {
	client *cluster.Client
	log    *slog.Logger
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
	objects map[scope]*table[seen]
	// lists are all tables, by what they have.
	lists map[string][]list
	// applied are the objects that this process has applied.
	applied map[model.Ref]record
	// errs say what cannot be watched, by its name.
	errs map[string]error
	// reconnected says that a watch has started since Reconnected was called.
	reconnected bool
}

// scope is where objects of one kind are.
type scope struct {
	gvr       schema.GroupVersionResource
	kind      schema.GroupVersionKind
	namespace string
}

func (p scope) isDaemonSets() bool {
	return p.gvr == appsv1.SchemeGroupVersion.WithResource("daemonsets")
}

// selector selects the orchestrator's objects.
const selector = render.ManagedBy + "=" + model.FieldManager

// New returns an Observer, which observes nothing yet.
func New(client *cluster.Client, log *slog.Logger) *Observer {
	return &Observer{
		client: client, log: log, Changed: make(chan struct{}, 1), interned: interned{},
		pods: map[string]*table[model.Pod]{}, objects: map[scope]*table[seen]{},
		lists: map[string][]list{}, applied: map[model.Ref]record{}, errs: map[string]error{},
	}
}

func (o *Observer) signal() { pace.Signal(o.Changed) }

// Follow starts to observe the nodes with these labels besides those of the agents, and the kinds
// of these objects with their pods, until ctx ends. What is observed already goes on.
func (o *Observer) Follow(ctx context.Context, refs []model.Ref, labels []string) error {
	o.followNodes(ctx, labels)
	for _, r := range refs {
		gvr, namespaced, err := o.client.Mapping(ctx, r)
		if no := (*cluster.NoKindError)(nil); errors.As(err, &no) {
			continue // the error of the apply names the missing kind
		}
		if err != nil {
			return err
		}
		p := scope{gvr: gvr, kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)}
		if namespaced {
			p.namespace = r.Namespace
		}
		if o.objects[p] != nil {
			continue
		}
		o.followScope(ctx, p)
	}
	return nil
}

// followNodes watches nodes. It lists them again if other labels are to be kept.
func (o *Observer) followNodes(ctx context.Context, labels []string) {
	if o.nodes != nil && slices.Equal(labels, o.labels) {
		return
	}
	if o.stopNodes != nil {
		o.stopNodes()
	}
	ctx, o.stopNodes = context.WithCancel(ctx)
	o.texts.Lock()
	o.labels = labels
	o.texts.Unlock()
	nodes := newTable(o, "nodes", o.node, equal[model.Node])
	o.mu.Lock()
	o.nodes = nodes
	o.lists["nodes"] = []list{nodes}
	o.mu.Unlock()
	watchTyped(ctx, nodes, o.client.Core, metav1.NamespaceAll)
}

// followScope watches the objects in a place, and the pods of DaemonSets.
func (o *Observer) followScope(ctx context.Context, p scope) {
	t := newTable(o, p.gvr.Resource, func(m metav1.Object) (seen, bool) { return newSeen(p, m), true }, sameSeen)
	t.removed, t.selector = o.forget, selector
	o.mu.Lock()
	o.objects[p] = t
	o.lists[t.name] = append(o.lists[t.name], t)
	o.mu.Unlock()
	if !p.isDaemonSets() {
		from := o.client.Metadata.Resource(p.gvr).Namespace(p.namespace)
		watchInto(ctx, t, from.List, from.Watch)
		return
	}
	pods := newTable(o, "pods", o.pod, equal[model.Pod])
	o.mu.Lock()
	o.pods[p.namespace] = pods
	o.lists["pods in "+p.namespace] = []list{pods}
	o.mu.Unlock()
	watchTyped(ctx, t, o.client.Apps, p.namespace)
	watchTyped(ctx, pods, o.client.Core, p.namespace)
}

// Listed returns nil if all that is followed is known, and otherwise what is not, and why.
func (o *Observer) Listed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.errs)) {
		return fmt.Errorf("watch %s: %w", name, o.errs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(o.lists)) {
		for _, t := range o.lists[name] {
			if !t.listed() {
				return fmt.Errorf("the API server has not listed the %s yet", name)
			}
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
