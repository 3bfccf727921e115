package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/pkg/kube"
)

// Manager is the field manager of the labels that a migration sets.
const Manager = "kubectl-outrigger"

// Runner hands components over.
type Runner struct {
	Client dynamic.Interface
	// Nodes is a label selector for the nodes of the migration. Empty selects all.
	Nodes string
	// Timeout limits each wait: for the end of pods, and for pods that become ready.
	Timeout time.Duration
	// Poll is the delay between two reads of the cluster.
	Poll time.Duration
	// Settle is how long a node must offer its GPUs after the hand-over of a component that changes them. It is longer than
	// the 10 s between two reports of a kubelet, because the last report may be from the time before.
	Settle time.Duration
	// Evict permits to evict GPU pods from a node whose driver is handed over.
	Evict bool
	// Progress reports what happens. It must not be nil.
	Progress func(format string, args ...any)
}

// Step returns the next hand-over of a component.
func (r *Runner) Step(ctx context.Context, c Component, undo bool) (Step, error) {
	s, err := Observe(ctx, r.Client, c, r.Nodes)
	if err != nil {
		return Step{}, err
	}
	return Next(s, c, undo), nil
}

// Run hands a component over: one node first, and then the others. If the new side does not work on a node, Run gives the
// nodes of this wave back, and returns why. It can be repeated after an interruption.
func (r *Runner) Run(ctx context.Context, step Step) error {
	if err := step.Check(); err != nil {
		return err
	}
	for _, nodes := range step.waves() {
		if len(nodes) == 0 {
			continue
		}
		if err := r.wave(ctx, step, nodes); err != nil {
			return err
		}
	}
	return nil
}

// wave hands nodes over together.
func (r *Runner) wave(ctx context.Context, step Step, nodes []string) error {
	c := step.Component
	s, err := Observe(ctx, r.Client, c, r.Nodes)
	if err != nil {
		return err
	}
	nodes, err = r.notReady(ctx, step, s, nodes)
	if err != nil || len(nodes) == 0 {
		return err
	}
	want := offered(s, c, nodes)
	if c.Name == Driver {
		if err := r.prepareDriver(ctx, step, nodes); err != nil {
			return errors.Join(err, r.uncordon(context.WithoutCancel(ctx), c, nodes))
		}
	}
	r.Progress("%s: hands over %s", c.Name, names(nodes))
	err = r.move(ctx, c, step.From, step.To, nodes, want)
	if err == nil {
		r.Progress("%s: %s works on %s", c.Name, side(step.To), names(nodes))
		return r.uncordon(ctx, c, nodes)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w; the hand-over of %s is incomplete: run the command again, or undo it with --undo --only %s", err, c.Name, c.Name)
	}
	if len(step.Old) == 0 {
		return fmt.Errorf("hand over %s: %w", c.Name, err)
	}
	r.Progress("%s: failed: %v; gives %s back to %s", c.Name, err, names(nodes), side(step.From))
	if back := r.move(ctx, c, step.To, step.From, nodes, nil); back != nil {
		return errors.Join(fmt.Errorf("hand over %s: %w", c.Name, err), fmt.Errorf("give the nodes back: %w; run --undo --only %s", back, c.Name))
	}
	return errors.Join(fmt.Errorf("hand over %s: %w; %s have been given back to %s", c.Name, err, names(nodes), side(step.From)), r.uncordon(ctx, c, nodes))
}

// side names the programs that a value of the label selects.
func side(value string) string {
	if value == Ours {
		return "Outrigger"
	}
	return "NVIDIA's GPU Operator"
}

// notReady hands over nodes whose kubelet does not run, without a wait: their pods change when the node is back. It
// returns the other nodes.
func (r *Runner) notReady(ctx context.Context, step Step, s *State, nodes []string) (left []string, err error) {
	for _, n := range s.Nodes {
		switch {
		case !slices.Contains(nodes, n.Name):
		case ready(n):
			left = append(left, n.Name)
		default:
			if err := r.label(ctx, n, step.Component, step.To); err != nil {
				return nil, err
			}
			r.Progress("%s: %s is not ready: the hand-over takes effect when it is back", step.Component.Name, n.Name)
		}
	}
	return left, nil
}

// move ends the pods of one side on nodes, and waits until the other side works there.
func (r *Runner) move(ctx context.Context, c Component, from, to string, nodes []string, want map[string]map[string]int64) error {
	if err := r.labelAll(ctx, c, nodes, Between); err != nil {
		return err
	}
	err := r.wait(ctx, c, 0, func(s *State) string {
		if left := ended(s, c, from, nodes); len(left) > 0 {
			return "pods of " + side(from) + " still run: " + names(left)
		}
		return ""
	})
	if err != nil {
		return err
	}
	r.Progress("%s: the pods of %s have ended", c.Name, side(from))
	if err := r.labelAll(ctx, c, nodes, to); err != nil {
		return err
	}
	settle := time.Duration(0)
	if c.Offers && want != nil {
		settle = r.Settle
	}
	return r.wait(ctx, c, settle, func(s *State) string { return strings.Join(first(missing(s, c, to, nodes, want)), "; ") })
}

// first returns the first items of a list.
func first(all []string) []string {
	const most = 3
	return all[:min(len(all), most)]
}

// wait reads the cluster until missing has returned "" for a time. The error has the last text that it returned.
func (r *Runner) wait(ctx context.Context, c Component, settle time.Duration, missing func(*State) string) error {
	deadline := time.Now().Add(r.Timeout)
	tick := time.NewTicker(r.Poll)
	defer tick.Stop()
	var since time.Time
	last := ""
	for {
		s, err := Observe(ctx, r.Client, c, r.Nodes)
		why := ""
		if err != nil {
			why = err.Error()
		} else {
			why = missing(s)
		}
		if why != "" {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		if why == "" && time.Since(since) >= settle {
			return nil
		}
		if why != "" && time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %s", r.Timeout, why)
		}
		if why == "" {
			why = "it works; its last report must be newer than the hand-over"
		}
		if why != last {
			r.Progress("%s: waits: %s", c.Name, why)
			last = why
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting: %s", context.Cause(ctx), why)
		case <-tick.C:
		}
	}
}

// labelAll gives all labels of a component on nodes a value.
func (r *Runner) labelAll(ctx context.Context, c Component, nodes []string, value string) error {
	for _, name := range nodes {
		o, err := r.Client.Resource(nodesResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read node %s: %w", name, err)
		}
		n, err := typed[corev1.Node](o)
		if err != nil {
			return err
		}
		if err := r.label(ctx, n, c, value); err != nil {
			return err
		}
	}
	return nil
}

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
		return fmt.Errorf("change node %s: %w", node, err)
	}
	return nil
}
