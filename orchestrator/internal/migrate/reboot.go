package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// boot is what a node has reported since it was started: its ID, and the driver containers that run in it.
type boot struct {
	id         string
	containers []string
}

// onReboot hands the driver over on each node when it reboots. Until then, the driver and its pods stay. Containers do not
// survive a reboot, so the label changes after the new boot is reported, and before the driver container of the old side
// starts in it. Nothing is unloaded, and nothing is evicted.
func (r *Runner) onReboot(ctx context.Context, step Step) error {
	c := step.Component
	s, err := r.observe(ctx, c)
	if err != nil {
		return err
	}
	for _, name := range step.Nodes {
		if n := s.node(name); n != nil && step.To == Ours {
			if err := r.usesTheirs(ctx, n); err != nil {
				return err
			}
		}
	}
	r.Progress("%s: hands over %s, each at its next reboot", c.Name, names(step.Nodes))
	m := &move{Runner: r, c: c, from: step.From, to: step.To, want: offered(s, c, step.Nodes, step.From), boots: map[string]boot{}}
	bad, err := m.run(ctx, step.Nodes)
	if err != nil {
		return fmt.Errorf("%w; the hand-over of %s is incomplete: run the command again, or undo it with --undo --only %s", err, c.Name, c.Name)
	}
	if len(bad) == 0 {
		return r.verify(ctx, step)
	}
	if s, err = r.observe(ctx, c); err != nil {
		return err
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		all = append(all, r.afterReboot(ctx, step, s.node(name), name, bad[name]))
	}
	return errors.Join(all...)
}

// afterReboot ends the hand-over of a node that has failed. A node that has not rebooted keeps its driver. A driver below
// GPU pods is not given back.
func (r *Runner) afterReboot(ctx context.Context, step Step, n *corev1.Node, name string, why error) error {
	c := step.Component
	if n != nil && n.Labels[c.Label] == step.From {
		return fmt.Errorf("hand over %s on %s: %w; it keeps its driver: run the command again before the node reboots", c.Name, name, why)
	}
	pods, err := r.gpuPods(ctx, name)
	if err == nil {
		err = r.refuse(name, pods)
	}
	if err != nil {
		return fmt.Errorf("hand over %s on %s: %w; it is not given back: %w; correct this, or undo it with --undo --only %s", c.Name, name, why, err, c.Name)
	}
	return r.giveBack(ctx, step, map[string]error{name: why})
}

// rebooted returns what a node waits for before its driver can change, or "".
func (m *move) rebooted(s *State, n *corev1.Node) string {
	now := bootOf(s, n, m.c, m.from)
	before, is := m.boots[n.Name]
	if !is || now.id == before.id {
		m.boots[n.Name] = now.settled
		return "it has not rebooted"
	}
	for _, container := range now.containers {
		if !slices.Contains(before.containers, container) {
			m.boots[n.Name] = now.settled
			m.Progress("%s: %s has rebooted, and the driver container of %s was faster: reboot it again", m.c.Name, n.Name, side(m.from))
			return "the driver container of " + side(m.from) + " has started since the reboot"
		}
	}
	return ""
}

// observedBoot is the boot that a node reports, with all driver containers that its pods report. The boot settled has only
// those that had started when the node reported its boot: another one may have started in the next boot.
type observedBoot struct {
	boot
	settled boot
}

// bootOf returns the boot of a node, with the driver containers of one side.
func bootOf(s *State, n *corev1.Node, c Component, value string) observedBoot {
	id := n.Status.NodeInfo.BootID
	found := observedBoot{boot: boot{id: id}, settled: boot{id: id}}
	var reported metav1.Time
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			reported = condition.LastHeartbeatTime
		}
	}
	for _, p := range s.Pods {
		if p.Node != n.Name || p.Label != c.Label || p.Value != value {
			continue
		}
		for container, started := range p.Running {
			found.containers = append(found.containers, container)
			if started.Before(reported.Time) {
				found.settled.containers = append(found.settled.containers, container)
			}
		}
	}
	return found
}

// down reports whether a person or the cloud says that a node is shut down. A node that is only not ready may run all its
// containers.
func down(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService || t.Key == "node.cloudprovider.kubernetes.io/shutdown"
	})
}

// runningIn returns the containers of a pod that run, with the time of their start.
func runningIn(p *corev1.Pod) map[string]time.Time {
	found := map[string]time.Time{}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil && c.ContainerID != "" {
			found[c.ContainerID] = c.State.Running.StartedAt.Time
		}
	}
	return found
}
