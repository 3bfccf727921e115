package grants

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	// maxGrants is the number of grants that are written after one list of the Nodes.
	maxGrants = 100
	// page is the number of Nodes in one response. A Node has up to 80 KiB.
	page = 50
)

// Config configures a Writer.
type Config struct {
	// Client needs the verbs list, watch and patch on nodes, list and watch on daemonsets of
	// Namespace, and create, get and patch on configmaps of Namespace.
	Client *kube.Client
	// Namespace is the namespace of the driver loader's DaemonSets.
	Namespace string
	Log       *slog.Logger
	// Retry has the delays after errors. The zero value means 1 s to 5 s.
	Retry pace.Backoff
}

// Writer writes the grants of a cluster. Several writers together stay within the limits.
type Writer struct {
	cfg  Config
	loop *reconcile.Loop

	mu sync.Mutex
	// nodes and sets are the results of the watches; nil until the first result.
	nodes []Node
	sets  []DaemonSet
	// waiting is the data of the ConfigMap, without announced grants.
	waiting map[string]string
}

// New returns a Writer. Run starts it.
func New(cfg Config) *Writer {
	w := &Writer{cfg: cfg}
	w.loop = reconcile.New(reconcile.Config{Name: "grants", Step: w.step, Retry: cfg.Retry, Delays: kube.Delays, Patient: true, Log: cfg.Log})
	return w
}

// Ready returns why the writer cannot write grants, or nil.
func (w *Writer) Ready() error { return errors.Join(w.loop.Ready(), w.cfg.Client.Failing()) }

// Run writes grants until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		kube.Watch(ctx, w.cfg.Client, kube.Query{Object: nodeOf(""), Page: page}, func(nodes []Node) {
			w.update(func() { w.nodes = nodes })
		})
	})
	following.Go(func() {
		kube.Watch(ctx, w.cfg.Client, kube.Query{Object: kube.Object{API: "apps/v1", Resource: "daemonsets", Namespace: w.cfg.Namespace}}, func(all []daemonSet) {
			sets := setsOf(all)
			w.update(func() { w.sets = sets })
		})
	})
	return w.loop.Run(ctx)
}

func (w *Writer) update(set func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set()
	w.loop.Wake()
}

// step decides again if the watches show that something has to be written.
func (w *Writer) step(ctx context.Context) (reconcile.Result, error) {
	w.mu.Lock()
	nodes, sets, waiting := w.nodes, w.sets, w.waiting
	w.mu.Unlock()
	if nodes == nil || sets == nil {
		return reconcile.Result{Pending: errors.New("the nodes and DaemonSets have not been listed yet")}, nil
	}
	p := Next(nodes, sets)
	if waiting != nil && len(p.Ended) == 0 && len(p.Granted) == 0 && maps.Equal(waiting, boardData(p.Waiting)) {
		return reconcile.Result{}, nil
	}
	again, err := w.decide(ctx, sets)
	if again {
		return reconcile.Result{After: -1}, err
	}
	return reconcile.Result{}, err
}

// decide reads the Nodes, and writes the changes. It reports whether it must be called again.
func (w *Writer) decide(ctx context.Context, sets []DaemonSet) (again bool, err error) {
	// Read the ConfigMap first: if another writer changes it after that, its version differs.
	b, err := w.board(ctx)
	if err != nil {
		return false, err
	}
	begun := b.begun()
	nodes, versions, err := w.list(ctx, begun)
	if err != nil {
		return false, err
	}
	p, path := Next(nodes, sets), kube.AnnotationPath(upgrade.GrantAnnotation)
	if len(p.Ended) > 0 {
		return true, w.annotate(ctx, p.Ended, versions, func(string) kube.Operation { return kube.Operation{Op: "remove", Path: path} })
	}
	// Announced grants come first, because the ConfigMap keeps them until they are written.
	names := slices.SortedFunc(maps.Keys(p.Granted), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(begun[a] == versions[a]), rank(begun[b] == versions[b])), cmp.Compare(a, b))
	})
	again = len(names) > maxGrants
	names = names[:min(len(names), maxGrants)]
	if err := w.begin(ctx, b, p, names, versions); err != nil {
		return false, err
	}
	return again, w.annotate(ctx, names, versions, func(name string) kube.Operation {
		w.cfg.Log.Info("granting an upgrade of the driver", "node", name, "driver", p.Granted[name])
		return kube.Operation{Op: "add", Path: path, Value: json.RawMessage(encode(p.Granted[name]))}
	})
}

func (w *Writer) boardObject(name string) kube.Object {
	return kube.Object{API: "v1", Resource: "configmaps", Namespace: w.cfg.Namespace, Name: name}
}

// board reads the ConfigMap, and creates it if it is missing.
func (w *Writer) board(ctx context.Context) (b board, err error) {
	err = w.cfg.Client.Get(ctx, w.boardObject(upgrade.BoardName), &b)
	if apierrors.IsNotFound(err) {
		err = w.cfg.Client.Create(ctx, w.boardObject(""), map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": upgrade.BoardName, "namespace": w.cfg.Namespace},
		})
		if err == nil || apierrors.IsAlreadyExists(err) {
			err = w.cfg.Client.Get(ctx, w.boardObject(upgrade.BoardName), &b)
		}
	}
	if err != nil {
		return b, fmt.Errorf("read the ConfigMap %s of namespace %s: %w", upgrade.BoardName, w.cfg.Namespace, err)
	}
	return b, nil
}

// list reads all Nodes, with their versions.
func (w *Writer) list(ctx context.Context, begun map[string]string) (nodes []Node, versions map[string]string, err error) {
	all, err := kube.List[listedNode](ctx, w.cfg.Client, kube.Query{Object: nodeOf(""), Page: page})
	if err != nil {
		return nil, nil, fmt.Errorf("list the nodes: %w", err)
	}
	versions = map[string]string{}
	for _, r := range all {
		r.Begun = begun[r.Name] == r.version
		nodes, versions[r.Name] = append(nodes, r.Node), r.version
	}
	return nodes, versions, nil
}

// begin announces grants in the ConfigMap, so that other writers count them. It fails if another
// writer has changed the ConfigMap since it was read.
func (w *Writer) begin(ctx context.Context, b board, p Plan, names []string, versions map[string]string) error {
	data := boardData(p.Waiting)
	now := maps.Clone(b.Data)
	delete(now, begunKey)
	if len(names) > 0 || !maps.Equal(now, data) {
		begun := map[string]string{}
		for _, name := range names {
			begun[name] = versions[name]
		}
		written := maps.Clone(data)
		written[begunKey] = encode(begun)
		ops := []kube.Operation{kube.Unchanged(b.Metadata.ResourceVersion), {Op: "add", Path: "/data", Value: json.RawMessage(encode(written))}}
		if err := w.cfg.Client.Patch(ctx, w.boardObject(upgrade.BoardName), ops, nil); err != nil {
			return fmt.Errorf("write the ConfigMap %s of namespace %s: %w", upgrade.BoardName, w.cfg.Namespace, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = data
	return nil
}

// annotate changes the grants of nodes, unless the Nodes have changed since they were read.
func (w *Writer) annotate(ctx context.Context, names []string, versions map[string]string, change func(name string) kube.Operation) error {
	var errs []error
	for _, name := range names {
		err := w.cfg.Client.Patch(ctx, nodeOf(name), []kube.Operation{kube.Unchanged(versions[name]), change(name)}, nil)
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("write the annotation %s of node %s: %w", upgrade.GrantAnnotation, name, err))
		}
	}
	return errors.Join(errs...)
}

func nodeOf(name string) kube.Object {
	return kube.Object{API: "v1", Resource: "nodes", Name: name}
}
