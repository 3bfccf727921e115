// Package controller reconciles a cluster with its ClusterPolicy: it observes the cluster, lets
// package pass derive a plan, and writes the plan. It keeps only state that it can read from the
// cluster again.
package controller

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/metrics"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pass"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/validation"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	// pause is the minimum time between two passes, because changes come in bursts. A pass over
	// thousands of nodes takes long. The pause after a pass is at least restFactor times the
	// duration of the pass, so that a roll-out uses at most a tenth of a processor.
	pause      = 200 * time.Millisecond
	restFactor = 9
	// firstRetry and maxRetry limit the delays after a failed write.
	firstRetry = time.Second
	maxRetry   = 5 * time.Minute
)

// The limits of status writes: a burst without delay, and then one write per interval. While a
// thousand nodes become ready, the counts in the status change all the time.
const (
	statusBurst = 5
	statusEvery = 15 * time.Second
)

// Policies is the source of the policy, and the destination of its status.
type Policies interface {
	// Current returns the policy in effect. It returns false if there is none.
	Current(ctx context.Context) (model.Policy, bool, error)
	// Publish writes the status with the inventory.
	Publish(ctx context.Context, p model.Policy, s model.Status) error
	// Report sends Events about the policy.
	Report(ctx context.Context, p model.Policy, events []model.Event)
	// Gone is called after all objects of a deleted policy are gone.
	Gone(ctx context.Context, p model.Policy) error
}

// Render returns the stages of a policy for a version of Kubernetes and for kinds of GPU nodes. The
// error names the values that are not accepted.
type Render func(p model.Policy, kubernetes string, kinds pools.Kinds) ([]model.Stage, error)

// Config holds the dependencies of a Controller.
type Config struct {
	Client   *cluster.Client
	Observer *observe.Observer
	Policies Policies
	Render   Render
	// Ignored returns a line for each value of a policy without effect. If it is nil, the policy has no conditions about
	// its values and about NVIDIA's GPU Operator.
	Ignored func(p model.Policy, kubernetes string) []string
	// Wrote is called for each applied object with its current state, and for each deleted object
	// with nil. Passed is called for each plan after it was written. Both may be nil.
	Wrote  func(r model.Ref, now *unstructured.Unstructured)
	Passed func(s model.State, plan model.Plan)
	Log    *slog.Logger
}

// Controller reconciles a cluster with a policy.
type Controller struct {
	cfg     Config
	loop    *reconcile.Loop
	Metrics *metrics.Recorder

	rendered rendered
	extra    extra
	// kubernetes is the version of the API server.
	kubernetes string
	attempts   attempts
	budget     pace.Budget
}

// rendered caches the stages of a policy until the policy or the kinds of nodes change.
type rendered struct {
	key     string
	kinds   pools.Kinds
	stages  []model.Stage
	refused string
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
		cfg: cfg, Metrics: metrics.New(time.Now), attempts: attempts{},
		budget: pace.Budget{Burst: statusBurst, Every: statusEvery},
	}
	c.loop = reconcile.New(reconcile.Config{
		Name: "policy", Step: c.once, Wakes: cfg.Observer.Changed, Retry: pace.Backoff{First: firstRetry, Most: maxRetry}, Patient: true,
		Starting: errors.New("the first pass has not ended"), Log: cfg.Log,
		Failed: func(err error, in time.Duration) { cfg.Log.Warn("a pass failed, retrying", "in", in, "err", err) },
	})
	return c
}

// Ready returns an error while the controller does not work. /readyz reports it.
func (c *Controller) Ready() error { return c.loop.Ready() }

// Run makes passes until ctx ends: after each change in the cluster, after an error with backoff,
// and at the time that a plan asks for.
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
	// The objects of the policy depend on the kinds of nodes. Without a complete list of the nodes, objects would be
	// deleted.
	if waiting, err := c.follow(ctx, policy.Status.Inventory); waiting.Pending != nil || err != nil {
		return waiting, err
	}
	c.render(policy)
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, err // rendering takes long on a busy machine
	}
	policy.Refused = cmp.Or(policy.Refused, c.rendered.refused)
	if waiting, err := c.follow(ctx, model.Inventory(c.rendered.stages)); waiting.Pending != nil || err != nil {
		return waiting, err
	}
	now := time.Now()
	state := c.cfg.Observer.State(policy, now)
	state.Failures = map[model.Ref]string{}
	c.attempts.observe(state)
	plan := pass.Next(c.rendered.stages, state, validation.Next)
	extraIn := c.addExtra(ctx, policy, &plan.Status, now)
	took := time.Since(now)
	in, err := c.write(ctx, state, plan)
	c.Metrics.Passed(plan.Status, time.Since(now), err)
	if err == nil {
		c.cfg.Passed(state, plan)
	}
	return reconcile.Result{After: model.Soonest(in, extraIn), Rest: max(pause, restFactor*took)}, err
}

// follow observes the nodes and the kinds of refs. The result is pending until all objects are listed.
func (c *Controller) follow(ctx context.Context, refs []model.Ref) (reconcile.Result, error) {
	if err := c.cfg.Observer.Follow(ctx, refs); err != nil {
		return reconcile.Result{}, err
	}
	err := c.cfg.Observer.Listed()
	if err == nil {
		return reconcile.Result{}, nil
	}
	// The next pass starts when the Observer has listed all objects, because this counts as a change.
	c.cfg.Log.Debug("waiting", "err", err)
	return reconcile.Result{After: maxRetry, Rest: pause, Pending: err}, nil
}

// refreshVersion reads the version of the API server again if a watch was restarted, because the
// API server may have been upgraded.
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
	list, _ := pools.Parse(p.Values) // rendering reports the error
	kinds := pools.KindsOf(list, c.cfg.Observer.Nodes())
	if key == c.rendered.key && maps.EqualFunc(kinds, c.rendered.kinds, slices.Equal) {
		return
	}
	if key != c.rendered.key {
		// The changed policy may fix the failures, or may adopt objects.
		clear(c.attempts)
	}
	stages, err := c.cfg.Render(p, c.kubernetes, kinds)
	c.rendered = rendered{key: key, kinds: kinds, stages: stages}
	if err != nil {
		c.rendered.refused = err.Error()
		c.cfg.Log.Error("rejecting the values, changing nothing", "policy", p.Name, "err", err)
	}
}
