// Package controller keeps a cluster as its ClusterPolicy says: it observes, lets package pass
// derive what to write, and writes it. It keeps nothing that it cannot find in the cluster
// again.
package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/metrics"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pass"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/orchestrator/internal/validation"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	// pause is the least time between two passes: changes come in bursts. What a pass over
	// thousands of nodes computes takes long; rest times that passes before the next one, so
	// that a roll-out takes at most a tenth of a processor.
	pause      = 200 * time.Millisecond
	restFactor = 9
	// firstRetry and most are the delays after a write that failed.
	firstRetry = time.Second
	maxRetry   = 5 * time.Minute
)

// The status is written at once a few times, and then with pauses: while a thousand nodes become
// ready, its counts change all the time.
const (
	statusBurst = 5
	statusEvery = 15 * time.Second
)

// Policies are where a Controller reads what is asked for, and writes what became of it.
type Policies interface {
	// Current returns what is in effect; false if nothing is asked for.
	Current(ctx context.Context) (model.Policy, bool, error)
	// Publish writes the status with the inventory, and sends no more than it has to.
	Publish(ctx context.Context, p model.Policy, s model.Status) error
	// Report sends Events about the policy.
	Report(ctx context.Context, p model.Policy, events []model.Event)
	// Gone is called when nothing is left of a policy that is being deleted.
	Gone(ctx context.Context, p model.Policy) error
}

// Render returns the stages of a policy for a version of Kubernetes. An error says which values are
// not accepted.
type Render func(p model.Policy, kubernetes string) ([]model.Stage, error)

// Config has what a Controller works with.
type Config struct {
	Client   *cluster.Client
	Observer *observe.Observer
	Policies Policies
	Render   Render
	// Wrote is told of each object that was applied, as it is now, and with nil of each that is
	// being deleted. It may be nil, as Passed may, which is told of each plan that was written.
	Wrote  func(r model.Ref, now *unstructured.Unstructured)
	Passed func(s model.State, plan model.Plan)
	Log    *slog.Logger
}

// Controller keeps a cluster as asked for.
type Controller struct {
	cfg     Config
	loop    *reconcile.Loop
	Metrics *metrics.Recorder

	rendered rendered
	// kubernetes is the version of the API server.
	kubernetes string
	failures   map[model.Ref]*failure
	budget     pace.Budget
	repairs    repairs
}

// rendered are the stages of a policy, for as long as it does not change.
type rendered struct {
	key     string
	stages  []model.Stage
	refused string
}

// failure is why an object could not be written.
type failure struct {
	text, hash string
	retryAt    time.Time
	backoff    pace.Backoff
}

// New returns a Controller.
func New(cfg Config) *Controller {
	if cfg.Wrote == nil {
		cfg.Wrote = func(model.Ref, *unstructured.Unstructured) {}
	}
	if cfg.Passed == nil {
		cfg.Passed = func(model.State, model.Plan) {}
	}
	c := &Controller{
		cfg: cfg, Metrics: metrics.New(time.Now), failures: map[model.Ref]*failure{},
		budget: pace.Budget{Burst: statusBurst, Every: statusEvery}, repairs: repairs{},
	}
	c.loop = reconcile.New(reconcile.Config{
		Name: "policy", Step: c.once, Wakes: cfg.Observer.Changed, Retry: pace.Backoff{First: firstRetry, Most: maxRetry}, Patient: true,
		Starting: errors.New("the first pass has not ended"), Log: cfg.Log,
		Failed: func(err error, in time.Duration) { cfg.Log.Warn("a pass failed, retrying", "in", in, "err", err) },
	})
	return c
}

// Ready says why the controller does not work, for /readyz.
func (c *Controller) Ready() error { return c.loop.Ready() }

// Run makes passes until ctx ends: after each change in the cluster, after errors with growing
// pauses, and when a plan asks for it.
func (c *Controller) Run(ctx context.Context) error {
	defer c.cfg.Observer.Wait()
	return c.loop.Run(ctx)
}

// once makes one pass.
func (c *Controller) once(ctx context.Context) (reconcile.Result, error) {
	policy, ok, err := c.cfg.Policies.Current(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !ok {
		c.Metrics.NoPolicy()
		return reconcile.Result{Rest: pause}, nil
	}
	if err := c.refreshVersion(ctx); err != nil {
		return reconcile.Result{}, err
	}
	c.render(policy)
	policy.Refused = c.rendered.refused
	refs := append(render.Inventory(c.rendered.stages), policy.Status.Inventory...)
	if err := c.cfg.Observer.Follow(ctx, refs, model.NodeLabels(c.rendered.stages)); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.cfg.Observer.Listed(); err != nil {
		// The list is a change, which starts the next pass.
		c.cfg.Log.Debug("waiting", "err", err)
		return reconcile.Result{After: maxRetry, Rest: pause, Pending: err}, nil
	}
	now := time.Now()
	state := c.cfg.Observer.State(policy, now)
	state.Failures = map[model.Ref]string{}
	for r, f := range c.failures {
		state.Failures[r] = f.text
	}
	c.repairs.observe(state)
	plan := pass.Next(c.rendered.stages, state, validation.Next)
	took := time.Since(now)
	in, err := c.write(ctx, state, plan)
	c.Metrics.Passed(plan.Status, time.Since(now), err)
	if err == nil {
		c.cfg.Passed(state, plan)
	}
	return reconcile.Result{After: in, Rest: max(pause, restFactor*took)}, err
}

// refreshVersion asks the API server for its version, if it may have been restarted since.
func (c *Controller) refreshVersion(ctx context.Context) error {
	if !c.cfg.Observer.Reconnected() && c.kubernetes != "" {
		return nil
	}
	before := c.kubernetes
	var err error
	if c.kubernetes, err = c.cfg.Client.Version(ctx); err == nil && c.kubernetes != before {
		c.cfg.Client.Refresh()
	}
	return err
}

// render brings c.rendered up to date.
func (c *Controller) render(p model.Policy) {
	key := model.HashOf(p.UID, p.Release, p.Generation, p.Validate, p.Adopt, p.Values, c.kubernetes)
	if key == c.rendered.key {
		return
	}
	stages, err := c.cfg.Render(p, c.kubernetes)
	c.rendered = rendered{key: key, stages: stages}
	if err != nil {
		c.rendered.refused = err.Error()
		c.cfg.Log.Error("the values are not accepted, nothing is changed", "policy", p.Name, "err", err)
	}
	// A new policy may have mended what failed, or may adopt.
	clear(c.failures)
	clear(c.repairs)
}
