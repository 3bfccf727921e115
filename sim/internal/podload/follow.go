// Package podload makes the GPUs of a simulated node show the load of the pods that use them: it
// observes the annotations of the pods in the API server, their devices in the kubelet and their
// processes in /proc, derives the loads, and publishes them with load.Apply.
package podload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/reconcile"
	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

const (
	// tick is the time between two writes of values that vary.
	tick = 5 * time.Second
	// recheck is the time between two requests to the kubelet if no pod changes. On a node without loads, it is also the
	// longest time until a load by hand begins to vary: each simulated node would pay for shorter checks.
	recheck = time.Minute
)

// Config configures a Follower.
type Config struct {
	// Root is the folder of the simulated node. The node may be missing, or replaced, at any time.
	Root string
	// Client is the client of the API server. It needs the verbs list and watch on pods.
	Client *kube.Client
	// NodeName is the name of the Node object.
	NodeName string
	// Kubelet says which containers have which devices. Run closes it.
	Kubelet *podresources.Client
	// Default is the utilization of pods without the annotation. If it is nil, pods without annotations
	// do not change the values of GPUs.
	Default *scenario.Range
	// Proc is the host's procfs. If it is empty, it is /proc. Processes are found only if this process
	// shares the PID namespace of the host.
	Proc string
	// Event reports an Event of the Node. It may be nil.
	Event func(kube.Event)
	Log   *slog.Logger
}

// Follower keeps the loads of pods on the GPUs of a node. Its methods are safe for concurrent use.
type Follower struct {
	cfg  Config
	loop *reconcile.Loop
	pods atomic.Pointer[[]pod]

	// The step of the loop owns the other fields.

	// seen is the value of pods at the last request to the kubelet, at the time asked.
	seen  *[]pod
	asked time.Time
	// loads are the loads of pods.
	loads []load.Load
	// reported has the problems that were reported, for each pod by its UID.
	reported map[string][]problem
}

// New returns a Follower. It does nothing before Run.
func New(cfg Config) *Follower {
	cfg.Proc = cmp.Or(cfg.Proc, "/proc")
	if cfg.Event == nil {
		cfg.Event = func(kube.Event) {}
	}
	f := &Follower{cfg: cfg, reported: map[string][]problem{}}
	f.loop = reconcile.New(reconcile.Config{Name: "loads", Step: f.step, Log: cfg.Log})
	return f
}

// Ready returns nil if the GPUs show the loads of the pods, and otherwise the reason.
func (f *Follower) Ready() error { return f.loop.Ready() }

// Wake makes the Follower look at the node again, for example because it has GPUs now. It does not block.
func (f *Follower) Wake() { f.loop.Wake() }

// Run follows the pods until ctx ends. It returns nil then. The loads remain.
func (f *Follower) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		watch(ctx, f.cfg.Client, f.cfg.NodeName, func(pods []pod) {
			f.pods.Store(&pods)
			f.loop.Wake()
		})
		return nil
	})
	g.Go(func() error { return f.loop.Run(ctx) })
	return errors.Join(g.Wait(), f.cfg.Kubelet.Close())
}

// step reads the pods and their devices if they may have changed, and sets the values of the GPUs.
func (f *Follower) step(ctx context.Context) (reconcile.Result, error) {
	pods := f.pods.Load()
	if pods == nil {
		return reconcile.Result{Pending: errors.New("the API server has not listed the pods of this node yet")}, nil
	}
	var failed error
	if f.seen != pods || time.Since(f.asked) > recheck {
		f.report(*pods)
		if failed = f.refresh(ctx, *pods); failed == nil {
			f.seen, f.asked = pods, time.Now()
		}
	}
	after := recheck
	err := load.Apply(f.cfg.Root, time.Now(), func(all []load.Load) []load.Load {
		byHand := slices.DeleteFunc(all, func(l load.Load) bool { return l.Owner != "" })
		all = append(byHand, f.loads...)
		if len(all) > 0 {
			after = tick
		}
		return all
	})
	if err = cmp.Or(failed, err); errors.Is(err, node.ErrNotFound) {
		return reconcile.Result{After: tick, Pending: err}, nil
	}
	return reconcile.Result{After: after}, err
}

// refresh derives the loads of pods.
func (f *Follower) refresh(ctx context.Context, pods []pod) error {
	snap, err := show(f.cfg.Root)
	if err != nil {
		return err
	}
	ended := map[string]bool{}
	for _, p := range pods {
		ended[p.name()] = p.ended()
	}
	err = f.cfg.Kubelet.Refresh(ctx, podresources.Options{
		Node: devices(snap), Ended: func(namespace, name string) bool { return ended[namespace+"/"+name] },
	})
	if err != nil {
		return fmt.Errorf("find the gpus of pods: %w", err)
	}
	users := f.cfg.Kubelet.Last().Map
	loads := uses(pods, users, f.cfg.Default, nil)
	f.loads = uses(pods, users, f.cfg.Default, firstProcesses(f.cfg.Proc, containers(pods, loads)))
	return nil
}

func show(root string) (state.Snapshot, error) {
	n, err := node.Open(root, node.Machine())
	if err != nil {
		return state.Snapshot{}, err
	}
	return n.State().Show(), n.Close()
}

// report reports each problem in the annotations of a pod once.
func (f *Follower) report(pods []pod) {
	now := map[string][]problem{}
	for _, p := range pods {
		found := parse(p.Metadata.Annotations).problems
		if len(found) == 0 {
			continue
		}
		now[p.Metadata.UID] = found
		for _, pr := range found {
			if slices.Contains(f.reported[p.Metadata.UID], pr) {
				continue
			}
			f.cfg.Log.Warn("annotation of a pod has no effect", "pod", p.name(), "annotation", pr.annotation, "err", pr.cause)
			f.cfg.Event(kube.Event{
				Warning: true, Reason: "InvalidSimulatedLoad",
				Message: fmt.Sprintf("pod %s: annotation %s: %s", p.name(), pr.annotation, pr.cause),
			})
		}
	}
	f.reported = now
}
