package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/lease"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/reconcile"
)

// operator runs the orchestrator as a controller.
type operator struct {
	store      once.Store
	controller *controller.Controller
	observer   *observe.Observer
	waiting    *reconcile.Status
	log        *slog.Logger
}

func (s *settings) newOperator(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	store, err := s.openStore()
	if err != nil {
		return nil, err
	}
	o := connect(store, log)
	return &agent.Agent{Parts: []agent.Part{{
		Name: "controller", Run: o.run, Ready: o.ready, Collectors: []prometheus.Collector{o.controller.Metrics},
	}}}, nil
}

// connect returns an operator for the cluster of store.
func connect(store once.Store, log *slog.Logger) *operator {
	client := store.Client
	o := &operator{
		store: store, log: log,
		waiting: reconcile.NewStatus(errors.New("waiting for the Lease " + lease.Name)),
	}
	o.observer = observe.New(client, log)
	o.controller = controller.New(controller.Config{
		Client: client, Observer: o.observer, Render: o.render, Ignored: o.ignored, Log: log,
		Policies: &controller.InCluster{Client: client, Observer: o.observer, Log: log},
	})
	return o
}

// ready returns nil even if another orchestrator holds the Lease, because waiting is the correct
// state then.
func (o *operator) ready() error {
	if o.waiting.Err() == nil {
		return o.controller.Ready()
	}
	return nil
}

// garbage is the size of the garbage in the heap, in percent of the live objects, that starts a collection. While thousands
// of pods start, the default of 100 needs 4 MiB more with 1,000 nodes.
const garbage = 70

func (o *operator) run(ctx context.Context) error {
	debug.SetGCPercent(garbage)
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this process: %w", err)
	}
	id := fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
	return lease.Run(ctx, o.store.Client.REST, id, o.log, func(ctx context.Context) error {
		o.waiting.Set(nil)
		if err := definition.Served(ctx, o.store.Client); err != nil {
			return err
		}
		if err := o.observer.FollowPolicies(ctx); err != nil {
			return err
		}
		return o.controller.Run(ctx)
	})
}

// render returns the stages of a policy, without the objects of the Helm release. It frees the
// memory that rendering needs, because the next rendering follows only after a change of the
// policy or of the kinds of nodes.
func (o *operator) render(p model.Policy, kubernetes string, kinds pools.Kinds) ([]model.Stage, error) {
	defer debug.FreeOSMemory()
	return render.Stages(render.Config{Validate: p.Validate, Kinds: kinds, ByHelm: true, Release: o.release(p, kubernetes)})
}

// ignored returns a line for each value of a policy without effect.
func (o *operator) ignored(p model.Policy, kubernetes string) []string {
	defer debug.FreeOSMemory()
	lines, err := charts.Ignored(o.release(p, kubernetes))
	if err != nil {
		o.log.Debug("cannot list the values without effect", "err", err)
	}
	return lines
}

func (o *operator) release(p model.Policy, kubernetes string) charts.Release {
	return charts.Release{Name: p.Release, Namespace: o.store.Namespace, Kubernetes: kubernetes, Values: p.Values}
}
