package upgrade

import (
	"context"
	"fmt"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/slots"
	"outrigger.dev/pkg/kube"
)

// observe reads the node, the driver and, if the state needs one, the slots. It returns the
// policy too.
func (u *Upgrade) observe(ctx context.Context) (object, Observation, Policy, error) {
	var node object
	desired, err := u.cfg.Desired(u.journal.State)
	p, o := desired.Policy, Observation{Target: desired.Driver}
	if err != nil {
		return node, o, p, fmt.Errorf("find out which driver is desired: %w", err)
	}
	if err := u.cfg.Client.Get(ctx, u.cfg.Client.Node(), &node); err != nil {
		return node, o, p, fmt.Errorf("read node %s: %w", u.cfg.Client.Node().Name, err)
	}
	o.Node = node.read()
	if o.Loaded, err = u.cfg.Driver.Loaded(ctx); err != nil {
		return node, o, p, fmt.Errorf("look which driver is loaded: %w", err)
	}
	if s := u.journal.State; s == Required || s.beforeSwap() || s == Swapping {
		if o.Node.Requested || u.journal.Requested {
			desired.Policy.MaxFailures = 0 // somebody wants to know whether it works now
		}
		o.Slot, err = u.slot(ctx, desired)
	}
	return node, o, p, err
}

// slot returns how the node stands in the queue.
func (u *Upgrade) slot(ctx context.Context, d Desired) (Slot, error) {
	most, err := u.most(ctx, d.Policy)
	if err != nil {
		return Slot{}, err
	}
	want := slots.Want{Driver: d.Driver, Slots: most, MaxFailures: d.Policy.MaxFailures}
	if n := d.Policy.MaxParallelUpgrades; n > 0 {
		want.Slots = min(n, most)
	}
	view, err := u.cfg.Slots.Look(ctx, want)
	if err != nil {
		return Slot{}, err
	}
	u.view = view
	s := Slot{Held: view.Held, Free: view.Free(), Failed: view.Failed}
	switch {
	case s.Held:
	case !s.Free:
		s.Why = "waits for the upgrade of " + strings.Join(view.Holders, ", ")
	default:
		others, err := u.cordoned(ctx)
		if err != nil {
			return Slot{}, err
		}
		if len(others) >= most {
			s.Free, s.Why = false, fmt.Sprintf("waits, because maxUnavailable is %s, and these nodes are cordoned: %s", d.Policy.MaxUnavailable, sample(others))
		}
	}
	return s, nil
}

// sample names some of many nodes.
func sample(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// most returns how many nodes may be unavailable.
func (u *Upgrade) most(ctx context.Context, p Policy) (int, error) {
	if !strings.HasSuffix(string(p.MaxUnavailable), "%") {
		return p.MaxUnavailable.Of(0), nil
	}
	var set struct {
		Status struct {
			Desired int `json:"desiredNumberScheduled"`
		} `json:"status"`
	}
	if err := u.cfg.Client.Get(ctx, u.cfg.DaemonSet, &set); err != nil {
		return 0, fmt.Errorf("count the nodes for maxUnavailable by the DaemonSet %s/%s: %w", u.cfg.DaemonSet.Namespace, u.cfg.DaemonSet.Name, err)
	}
	return p.MaxUnavailable.Of(set.Status.Desired), nil
}

// cordoned returns the other nodes with labels of NVIDIA that are cordoned, by whomever.
func (u *Upgrade) cordoned(ctx context.Context) ([]string, error) {
	type meta struct {
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	all, err := kube.List[meta](ctx, u.cfg.Client, kube.Query{
		Object: kube.Object{API: "v1", Resource: "nodes"}, FieldSelector: "spec.unschedulable=true", Metadata: true,
	})
	if err != nil {
		return nil, fmt.Errorf("list the nodes that are cordoned: %w", err)
	}
	var names []string
	for _, n := range all {
		if n.Metadata.Name != u.cfg.Client.Node().Name && hasGPU(n.Metadata.Labels) {
			names = append(names, n.Metadata.Name)
		}
	}
	return names, nil
}

func hasGPU(labels map[string]string) bool {
	for key := range labels {
		if strings.HasPrefix(key, "nvidia.com/") {
			return true
		}
	}
	return false
}

// book changes the slot of the node.
func (u *Upgrade) book(ctx context.Context, a Action) error {
	switch a.Kind {
	case Take:
		return u.cfg.Slots.Take(ctx, u.view)
	case Release:
		return u.cfg.Slots.Release(ctx)
	default:
		failed := ""
		if u.journal.State == Failed {
			failed = u.journal.Target
		}
		return u.cfg.Slots.Settle(ctx, failed)
	}
}
