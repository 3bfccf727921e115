package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// Manager is the field manager of the labels that a migration sets.
const Manager = "kubectl-outrigger"

// Runner hands components over.
type Runner struct {
	Client dynamic.Interface
	// Nodes is a label selector for the nodes of the migration. Empty selects all.
	Nodes string
	// Timeout limits each wait on a node: for the end of pods, and for pods that become ready.
	Timeout time.Duration
	// Poll is the delay between two reads of the cluster.
	Poll time.Duration
	// Settle is how long a node must offer its GPUs after the hand-over of a component that changes them. It is longer than
	// the 10 s between two reports of a kubelet, because the last report may be from the time before.
	Settle time.Duration
	// By is the way of hand-overs to Outrigger: ByLabels, which is the default, or ByClusterPolicy.
	By string
	// OnReboot hands the driver over when a node reboots. RebootTimeout limits the wait for that.
	OnReboot      bool
	RebootTimeout time.Duration
	// Evict permits to evict GPU pods from a node whose driver is handed over.
	Evict bool
	// Explain adds the fix to the error of a request. It must keep the error in its chain. Nil adds nothing.
	Explain func(error) error
	// Progress reports what happens. It must not be nil.
	Progress func(format string, args ...any)
}

// Step returns the next hand-over of a component.
func (r *Runner) Step(ctx context.Context, c Component, undo bool) (Step, error) {
	s, err := Observe(ctx, r.Client, c, r.Nodes)
	if err != nil {
		return Step{}, r.explain(err)
	}
	step := Next(s, c, undo).by(r.By, s)
	step.OnReboot = r.OnReboot && c.Name == Driver
	return step, nil
}

// Run hands a component over: one node first, and then the others in groups. It gives the nodes back on which the new side
// does not work. It goes on with the next group if more than half of a group works. It can be repeated after an
// interruption, and then also checks the nodes that have been handed over before.
func (r *Runner) Run(ctx context.Context, step Step) error {
	if err := step.Check(); err != nil {
		return err
	}
	if step.To == Theirs {
		if err := r.enable(ctx, step.Component); err != nil {
			return err
		}
	}
	if step.OnReboot {
		return r.onReboot(ctx, step)
	}
	var all []error
	for i, nodes := range step.waves() {
		failed, err := r.wave(ctx, step, nodes, i == 0)
		if all = append(all, err); failed*2 >= len(nodes) {
			return errors.Join(all...)
		}
	}
	if step.By == ByClusterPolicy && errors.Join(all...) == nil {
		all = append(all, r.disable(ctx, step.Component))
	}
	return errors.Join(append(all, r.verify(ctx, step))...)
}

// wave hands nodes over together. It returns the number of nodes that still have, or have got back, the old side. It disables
// the component in NVIDIA's ClusterPolicy after the first wave, if that is the way.
func (r *Runner) wave(ctx context.Context, step Step, nodes []string, isFirst bool) (failed int, err error) {
	c := step.Component
	s, err := r.observe(ctx, c)
	if err != nil {
		return len(nodes), err
	}
	if c.Name == Driver {
		if nodes = r.present(s, nodes); len(nodes) == 0 {
			return 0, nil
		}
		if err := r.prepareDriver(ctx, step, nodes); err != nil {
			return len(nodes), errors.Join(err, r.uncordon(context.WithoutCancel(ctx), c, nodes))
		}
	}
	r.Progress("%s: hands over %s", c.Name, names(nodes))
	m := &move{Runner: r, c: c, from: step.From, to: step.To, want: offered(s, c, nodes, step.From)}
	if step.By == ByClusterPolicy && !isFirst {
		if err := r.disable(ctx, c); err != nil {
			return len(nodes), err
		}
	}
	bad, err := m.run(ctx, nodes)
	if err != nil {
		return len(nodes), fmt.Errorf("%w; the hand-over of %s is incomplete: run the command again, or undo it with --undo --only %s", err, c.Name, c.Name)
	}
	worked := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return bad[n] != nil })
	if len(worked) > 0 {
		r.Progress("%s: %s works on %s", c.Name, side(step.To), names(worked))
	}
	err = r.uncordon(ctx, c, worked)
	if len(bad) == 0 {
		return 0, err
	}
	return len(bad), errors.Join(err, r.giveBack(ctx, step, bad))
}

// present returns the nodes whose kubelet runs. A driver changes only on such nodes: the pods of the others may still run.
func (r *Runner) present(s *State, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		n := s.node(name)
		if n != nil && !ready(n) {
			r.Progress("%s: skips %s, which is not ready: run the command again when it is ready", Driver, name)
		}
		return n == nil || !ready(n)
	})
}

// giveBack gives nodes back on which a hand-over has failed. It returns why they have failed.
func (r *Runner) giveBack(ctx context.Context, step Step, bad map[string]error) error {
	c, nodes := step.Component, slices.Sorted(maps.Keys(bad))
	left := map[string]error{}
	if len(step.Old) > 0 {
		for _, name := range nodes {
			r.Progress("%s: failed on %s: %v; gives it back to %s", c.Name, name, bad[name], side(step.From))
		}
		err := r.enable(ctx, c)
		if err != nil {
			return fmt.Errorf("give %s back: %w; run --undo --only %s", names(nodes), err, c.Name)
		}
		if left, err = (&move{Runner: r, c: c, from: step.To, to: step.From}).run(ctx, nodes); err != nil {
			return fmt.Errorf("give %s back: %w; run --undo --only %s", names(nodes), err, c.Name)
		}
	}
	var all []error
	for _, name := range nodes {
		err := fmt.Errorf("hand over %s on %s: %w", c.Name, name, bad[name])
		switch {
		case left[name] != nil:
			err = fmt.Errorf("%w; give %s back: %w; run --undo --only %s", err, name, left[name], c.Name)
		case len(step.Old) > 0:
			err = fmt.Errorf("%w; %s has been given back to %s", err, name, side(step.From))
		}
		if left[name] == nil {
			err = errors.Join(err, r.uncordon(ctx, c, []string{name}))
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// verify checks the nodes that Outrigger had before, because an interruption may have come before the check. It does not
// give them back: they may have worked for long.
func (r *Runner) verify(ctx context.Context, step Step) error {
	if step.To != Ours || len(step.New) == 0 || len(step.Done) == 0 {
		return nil
	}
	c := step.Component
	s, err := r.observe(ctx, c)
	if err != nil {
		return err
	}
	nodes := slices.DeleteFunc(slices.Clone(step.Done), func(name string) bool {
		n := s.node(name)
		return n == nil || !ready(n) || n.Labels[c.Label] != step.To
	})
	bad, err := (&move{Runner: r, c: c, from: step.From, to: step.To}).run(ctx, nodes)
	all := []error{err}
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		all = append(all, fmt.Errorf("%s of Outrigger does not work on %s: %w; correct this, or undo it with --undo --only %s", c.Name, name, bad[name], c.Name))
	}
	return errors.Join(all...)
}

// side names the programs that a value of the label selects.
func side(value string) string {
	if value == Ours {
		return "Outrigger"
	}
	return "NVIDIA's GPU Operator"
}

// observe reads the cluster. It repeats this after an error, up to the time limit.
func (r *Runner) observe(ctx context.Context, c Component) (*State, error) {
	began := time.Now()
	for {
		s, err := Observe(ctx, r.Client, c, r.Nodes)
		if err == nil {
			return s, nil
		}
		err = r.explain(err)
		if denied(err) || time.Since(began) > r.Timeout {
			return nil, err
		}
		if ctx.Err() == nil {
			r.Progress("%s: waits: %v", c.Name, err)
		}
		if !pace.Pause(ctx, r.Poll) {
			return nil, context.Cause(ctx)
		}
	}
}

// explain explains the error of a request.
func (r *Runner) explain(err error) error {
	if r.Explain == nil {
		return err
	}
	return r.Explain(err)
}

// denied reports whether a repetition of a request cannot succeed.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// label gives the labels of a component on a node a value. It does not change labels whose value keeps components off
// the node, and fails if another program changes one of the labels at the same time.
func (r *Runner) label(ctx context.Context, n *corev1.Node, c Component, value string) error {
	var ops []map[string]any
	for _, label := range c.Labels() {
		now, is := n.Labels[label]
		if is && movable(now) && now != value {
			path := kube.LabelPath(label)
			ops = append(ops, map[string]any{"op": "test", "path": path, "value": now}, map[string]any{"op": "replace", "path": path, "value": value})
		}
	}
	return r.patch(ctx, n.Name, ops)
}

// patch applies a JSON patch to a node.
func (r *Runner) patch(ctx context.Context, node string, ops []map[string]any) error {
	if len(ops) == 0 {
		return nil
	}
	body, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	if _, err := r.Client.Resource(nodesResource).Patch(ctx, node, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: Manager}); err != nil {
		return fmt.Errorf("change node %s: %w", node, r.explain(err))
	}
	return nil
}
