// Package observe observes the cluster by watches. It keeps a compact value of each relevant
// object, so that thousands of nodes need little memory.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

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
	// Changed receives a signal after each change.
	Changed chan struct{}
	running sync.WaitGroup

	texts    sync.Mutex
	interned interned
	// labels are the node labels to keep in addition to the agents' labels.
	labels []string
	// stopNodes ends the watch of nodes.
	stopNodes context.CancelFunc

	mu       sync.Mutex
	policies *table[model.Policy]
	nodes    *table[model.Node]
	// pods holds the pods by namespace.
	pods    map[string]*table[model.Pod]
	objects map[scope]*table[seen]
	// lists holds all tables, by the name of their content.
	lists map[string][]list
	// applied are the objects that this process has applied.
	applied map[model.Ref]record
	// errs holds the errors of watches, by the name of the resource.
	errs map[string]error
	// reconnected says that a watch has started since the last call of Reconnected.
	reconnected bool
}

// scope is the target of one watch: a kind, and the namespace if the kind is namespaced.
type scope struct {
	gvr       schema.GroupVersionResource
	kind      schema.GroupVersionKind
	namespace string
}

func (p scope) isDaemonSets() bool {
	return p.gvr == appsv1.SchemeGroupVersion.WithResource("daemonsets")
}

// selector is the label selector of the orchestrator's objects.
const selector = render.ManagedBy + "=" + model.FieldManager

// New returns an Observer without watches.
func New(client *cluster.Client, log *slog.Logger) *Observer {
	return &Observer{
		client: client, log: log, Changed: make(chan struct{}, 1), interned: interned{},
		pods: map[string]*table[model.Pod]{}, objects: map[scope]*table[seen]{},
		lists: map[string][]list{}, applied: map[model.Ref]record{}, errs: map[string]error{},
	}
}

func (o *Observer) signal() { pace.Signal(o.Changed) }

// Follow starts to watch the nodes, and the kinds of the objects in refs with their pods, until ctx
// ends. Existing watches continue. The parameter labels has node labels to keep in addition to the
// agents' labels.
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

// followNodes watches nodes. It restarts the watch if labels changed.
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
	nodes.carry = carryShort
	o.mu.Lock()
	o.nodes = nodes
	o.lists["nodes"] = []list{nodes}
	o.mu.Unlock()
	watchTyped(ctx, nodes, o.client.Core, metav1.NamespaceAll)
}

// followScope watches the objects in a scope. For DaemonSets, it also watches the pods of the
// namespace.
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

// Listed returns nil if all tables are complete and all watches work. Otherwise the error names the
// missing resource and the reason.
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

// Reconnected reports whether a watch has started since the last call. Then another API server, or
// another version, may answer.
func (o *Observer) Reconnected() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.reconnected
	o.reconnected = false
	return was
}

// Wait waits until all watches have ended. The context of Follow has to end first.
func (o *Observer) Wait() { o.running.Wait() }

// State returns the observed state of the cluster, with the policy.
func (o *Observer) State(policy model.Policy, now time.Time) model.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := model.State{Policy: policy, Now: now, Objects: o.seen(), DaemonSets: map[model.Ref]*model.DaemonSet{}}
	if o.nodes != nil {
		s.Nodes = slices.AppendSeq(make([]*model.Node, 0, len(o.nodes.rows)), maps.Values(o.nodes.rows))
		slices.SortFunc(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, t := range o.pods {
		maps.DeleteFunc(t.rows, func(_ string, p *model.Pod) bool {
			return p.Ready && now.After(p.Loops) && now.Sub(p.Since) > model.RestartTime
		})
		s.Pods = slices.AppendSeq(slices.Grow(s.Pods, len(t.rows)), maps.Values(t.rows))
	}
	for p, t := range o.objects {
		if !p.isDaemonSets() {
			continue
		}
		for _, row := range t.rows {
			ds := row.daemonSet
			// A DaemonSet that was observed before the last apply is not current.
			ds.Current = ds.Current && row.version >= o.applied[row.Ref].version
			s.DaemonSets[row.Ref] = &ds
		}
	}
	return s
}

const (
	// watchTimeout is the minimum duration of a watch. The Reflector ends each watch after one to
	// two times this duration, at random.
	watchTimeout = 20 * time.Minute
	// pageSize is the number of objects in a page of a list, for API servers that cannot stream.
	pageSize = 500
)

// watchTyped calls watchInto for the objects of a resource that client-go decodes into their Go
// type, in one namespace or in all namespaces.
func watchTyped[T any](ctx context.Context, t *table[T], group rest.Interface, namespace string) {
	from := cache.NewListWatchFromClient(group, t.name, namespace, fields.Everything())
	watchInto(ctx, t, from.ListWithContextFunc, from.WatchFuncWithContext)
}

// watchInto keeps a table up to date through list and watch until ctx ends. Listed returns their
// errors.
func watchInto[L runtime.Object, T any](ctx context.Context, t *table[T],
	list func(context.Context, metav1.ListOptions) (L, error), watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
) {
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = t.selector
			objects, err := list(ctx, options)
			t.o.recordError(t.name, err)
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = t.selector
			w, err := watches(ctx, options)
			t.o.recordError(t.name, err)
			if err == nil {
				t.o.connected()
			}
			return w, err
		},
	}, nil, t, cache.ReflectorOptions{Name: t.name, TypeDescription: t.name, MinWatchTimeout: watchTimeout})
	r.WatchListPageSize = pageSize
	t.o.running.Go(func() { r.RunWithContext(ctx) })
}

// connected records that a watch has started.
func (o *Observer) connected() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reconnected = true
	o.signal()
}

func (o *Observer) recordError(name string, err error) {
	// After these errors, the Reflector lists the objects again. That list succeeds or returns
	// another error.
	if apierrors.IsInvalid(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, context.Canceled) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.errs, name)
		return
	}
	if o.errs[name] == nil {
		o.log.Warn("cannot watch, retrying", "what", name, "err", err)
	}
	o.errs[name] = err
}
