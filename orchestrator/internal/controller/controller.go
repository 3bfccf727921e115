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
)

const (
	// pause is the least time between two passes: changes come in bursts. What a pass over
	// thousands of nodes computes takes long; rest times that passes before the next one, so
	// that a roll-out takes at most a tenth of a processor.
	pause = 200 * time.Millisecond
	rest  = 9
	// first and most are the delays after a write that failed.
	first = time.Second
	most  = 5 * time.Minute
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
	cfg Config
	// Ready says why the controller does not work, for /readyz.
	Ready   *pace.Readiness
	Metrics *metrics.Recorder

	rendered rendered
	// kubernetes is the version of the API server.
	kubernetes string
	failures   map[model.Ref]*failure
	budget     pace.Budget
	repairs    repairs
	// retry has the delays after errors that are about no object.
	retry pace.Backoff
	// blocked is what the last pass could not be made without, nil if it was made.
	blocked error
	// took is the duration of the last pass, without its writes.
	took time.Duration
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
	at         time.Time
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
	return &Controller{
		cfg: cfg, Ready: pace.NewReadiness(errors.New("the first pass has not ended")), Metrics: metrics.New(time.Now), failures: map[model.Ref]*failure{},
		budget: pace.Budget{Burst: statusBurst, Every: statusEvery}, repairs: repairs{},
		retry: pace.Backoff{First: first, Most: most},
	}
}

// Run makes passes until ctx ends: after each change in the cluster, after errors with growing
// pauses, and when a plan asks for it.
func (c *Controller) Run(ctx context.Context) error {
	defer c.cfg.Observer.Wait()
	for {
		in, err := c.once(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			in = jitter(c.retry.Next())
			if before := c.Ready.Swap(err); before == nil || before.Error() != err.Error() {
				c.cfg.Log.Warn("a pass failed, retrying", "in", in, "err", err)
			}
		default:
			c.retry.Reset()
			c.Ready.Set(c.blocked)
		}
		if !c.wait(ctx, in, err != nil) {
			return ctx.Err()
		}
	}
}

// wait waits for a change, or for in, if that is not 0. After an error a change does not end it.
func (c *Controller) wait(ctx context.Context, in time.Duration, failed bool) bool {
	least := max(pause, rest*c.took)
	if !pace.Pause(ctx, least) {
		return false
	}
	var timer <-chan time.Time
	if in > 0 {
		timer = time.After(max(0, in-least))
	}
	changed := c.cfg.Observer.Changed
	if failed {
		changed = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer:
	}
	return true
}

// once makes one pass, and returns after which time to make the next one without a change.
func (c *Controller) once(ctx context.Context) (time.Duration, error) {
	policy, ok, err := c.cfg.Policies.Current(ctx)
	if err != nil {
		return 0, err
	}
	if !ok {
		c.Metrics.NoPolicy()
		return 0, nil
	}
	if err := c.askVersion(ctx); err != nil {
		return 0, err
	}
	c.render(policy)
	policy.Refused = c.rendered.refused
	refs := append(render.Inventory(c.rendered.stages), policy.Status.Inventory...)
	if err := c.cfg.Observer.Follow(ctx, refs, model.NodeLabels(c.rendered.stages)); err != nil {
		return 0, err
	}
	err = c.cfg.Observer.Listed()
	c.blocked = err
	if err != nil {
		// The list is a change, which starts the next pass.
		c.cfg.Log.Debug("waiting", "err", err)
		return most, nil
	}
	now := time.Now()
	state := c.cfg.Observer.State(policy, now)
	state.Failures = map[model.Ref]string{}
	for r, f := range c.failures {
		state.Failures[r] = f.text
	}
	c.repairs.observe(state)
	plan := pass.Next(c.rendered.stages, state, validation.Next)
	c.took = time.Since(now)
	in, err := c.write(ctx, state, plan)
	c.Metrics.Passed(plan.Status, time.Since(now), err)
	if err == nil {
		c.cfg.Passed(state, plan)
	}
	return in, err
}

// askVersion asks the API server for its version, if it may have been restarted since.
func (c *Controller) askVersion(ctx context.Context) error {
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
