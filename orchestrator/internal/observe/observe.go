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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// Observer observes a cluster. One goroutine calls its methods.
type Observer struct {
	client *cluster.Client
	log    *slog.Logger
	// Changed receives a signal after each change.
	Changed chan struct{}
	running sync.WaitGroup

	policies *table[*unstructured.Unstructured, model.Policy]
	nodes    *table[*corev1.Node, model.Node]
	pods     []*table[*corev1.Pod, model.Pod]
	// objects has the objects of one kind in one namespace, by their scope.
	objects map[model.Ref]*table[metav1.Object, seen]
	// followed has all tables, with the name of their content.
	followed []followed
	// applied are the objects that this process has applied.
	applied map[model.Ref]record

	// mu protects the fields below, which the watches write.
	mu sync.Mutex
	// errs holds the errors of watches, by the name of the resource.
	errs map[string]error
	// reconnected says that a watch has started since the last call of Reconnected.
	reconnected bool
}

type followed struct {
	what  string
	table cache.Store
}

// scopeOf returns the target of the watch that observes an object: the reference without the name.
func scopeOf(r model.Ref) model.Ref {
	r.Name = ""
	return r
}

func isDaemonSets(scope model.Ref) bool {
	return scope.Kind == "DaemonSet" && scope.APIVersion == appsv1.SchemeGroupVersion.String()
}

// selector is the label selector of the orchestrator's objects.
const selector = render.ManagedBy + "=" + model.FieldManager

// New returns an Observer without watches.
func New(client *cluster.Client, log *slog.Logger) *Observer {
	return &Observer{
		client: client, log: log, Changed: make(chan struct{}, 1), objects: map[model.Ref]*table[metav1.Object, seen]{},
		applied: map[model.Ref]record{}, errs: map[string]error{},
	}
}

func (o *Observer) signal() { pace.Signal(o.Changed) }

// Follow starts to watch the nodes, and the kinds of the objects in refs with their pods, until ctx
// ends. Existing watches continue.
func (o *Observer) Follow(ctx context.Context, refs []model.Ref) error {
	if o.nodes == nil {
		o.followNodes(ctx)
	}
	for _, r := range refs {
		if o.objects[scopeOf(r)] != nil {
			continue
		}
		gvr, _, err := o.client.Mapping(ctx, r)
		if cluster.IsNoKind(err) {
			continue // the error of the apply names the missing kind
		}
		if err != nil {
			return err
		}
		o.followScope(ctx, scopeOf(r), gvr)
	}
	return nil
}

func (o *Observer) followNodes(ctx context.Context) {
	o.nodes = newTable(o, "nodes", func(in *corev1.Node) *model.Node {
		now := NodeOf(in)
		if before := o.nodes.value(in.Name); before != nil {
			carryShort(before, now)
		}
		return now
	})
	watchTyped(ctx, o.nodes, o.client.Core, metav1.NamespaceAll)
}

// followScope watches the objects in a scope. For DaemonSets, it also watches the pods of the
// namespace.
func (o *Observer) followScope(ctx context.Context, scope model.Ref, gvr schema.GroupVersionResource) {
	t := newTable(o, gvr.Resource, func(in metav1.Object) *seen { return newSeen(scope, in) })
	t.selector = selector
	o.objects[scope] = t
	if !isDaemonSets(scope) {
		from := o.client.Metadata.Resource(gvr).Namespace(scope.Namespace)
		watchInto(ctx, t, from.List, from.Watch)
		return
	}
	pods := newTable(o, "pods", PodOf)
	pods.what = "pods in " + scope.Namespace
	o.pods = append(o.pods, pods)
	watchTyped(ctx, t, o.client.Apps, scope.Namespace)
	watchTyped(ctx, pods, o.client.Core, scope.Namespace)
}

// Listed returns nil if all tables are complete and all watches work. Otherwise the error names the
// missing resource and the reason.
func (o *Observer) Listed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.errs)) {
		return fmt.Errorf("watch %s: %w", name, o.errs[name])
	}
	for _, f := range o.followed {
		if f.table.LastStoreSyncResourceVersion() == "" {
			return fmt.Errorf("the API server has not listed the %s yet", f.what)
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
	s := model.State{Policy: policy, Now: now, Objects: map[model.Ref]model.Seen{}, DaemonSets: map[model.Ref]*model.DaemonSet{}}
	o.addObjects(&s)
	s.Nodes = o.Nodes()
	slices.SortFunc(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range o.pods {
		for _, r := range t.rows() {
			if p := r.value; p.Ready && now.After(p.Loops) && now.Sub(p.Since) > model.RestartTime {
				t.drop(r)
			} else {
				s.Pods = append(s.Pods, p)
			}
		}
	}
	return s
}

// Nodes returns the observed nodes, in any order. Their values must not be changed.
func (o *Observer) Nodes() []*model.Node {
	var nodes []*model.Node
	for _, r := range o.nodes.rows() {
		nodes = append(nodes, r.value)
	}
	return nodes
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
func watchTyped[K metav1.Object, T any](ctx context.Context, t *table[K, T], group rest.Interface, namespace string) {
	from := cache.NewListWatchFromClient(group, t.name, namespace, fields.Everything())
	watchInto(ctx, t, from.ListWithContextFunc, from.WatchFuncWithContext)
}

// watchInto keeps a table up to date through list and watch until ctx ends. Listed returns their
// errors.
func watchInto[L runtime.Object, K metav1.Object, T any](ctx context.Context, t *table[K, T],
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
	t.o.followed = append(t.o.followed, followed{t.what, t})
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
