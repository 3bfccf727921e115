package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/text"
)

// maxCause is the most bytes of CauseAnnotation.
const maxCause = 1024

// object is what is read of the Node.
type object struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
}

// seen is object without what changes with each heartbeat.
type seen struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
}

// watch follows the Node until ctx ends.
func (m *Manager) watch(ctx context.Context) {
	last := Node{}
	kube.Watch(ctx, m.cfg.Client, kube.Query{Object: m.cfg.Client.Node()}, func(nodes []seen) {
		for _, n := range nodes {
			is := Node{
				Known: true, Config: n.Metadata.Labels[ConfigLabel], State: State(n.Metadata.Labels[StateLabel]),
				Cause:         n.Metadata.Annotations[CauseAnnotation],
				Unschedulable: n.Spec.Unschedulable, Cordoned: n.Metadata.Annotations[CordonedAnnotation] != "",
			}
			if is != last {
				last = is
				m.nodes.Put(is)
			}
		}
	})
}

// oneLine returns a cause as it is published: errors of several GPUs have several lines.
func oneLine(cause string) string {
	return text.Cut(text.Printable(strings.ReplaceAll(cause, "\n", "; ")), maxCause)
}

// published is what the Node shows of a state.
type published struct {
	State State
	Cause string
}

// writeSeen is the time after which the watch has delivered a write of this agent: if the Node
// differs from it then, another program has changed it.
const writeSeen = 5 * time.Second

// publish applies the state and its cause, unless the Node has them. It writes again what
// another program has changed.
func (m *Manager) publish(ctx context.Context, o Observation, a Action) error {
	p := published{State: a.State, Cause: a.Cause}
	if p.State == "" && !a.Clear {
		return nil
	}
	is := published{State: o.Node.State, Cause: o.Node.Cause}
	if m.shown != nil && *m.shown != is && m.now().Sub(m.wrote) < writeSeen {
		is = *m.shown // the watch has not delivered the last write yet
	}
	if is == p {
		m.shown = &p
		return nil
	}
	labels, annotations := map[string]string{}, map[string]string{}
	if p.State != "" {
		labels[StateLabel] = string(p.State)
	}
	if p.Cause != "" {
		annotations[CauseAnnotation] = p.Cause
	}
	node := m.cfg.Client.Node()
	if err := m.cfg.Client.Apply(ctx, node, map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": node.Name, "labels": labels, "annotations": annotations},
	}); err != nil {
		m.shown = nil
		return fmt.Errorf("publish %q as %s of node %s: %w", p.State, StateLabel, node.Name, err)
	}
	m.event(m.shown, p)
	m.shown, m.wrote = &p, m.now()
	return nil
}

// cordon makes the node unschedulable, and says in the same write who did it.
func (m *Manager) cordon(ctx context.Context) error {
	n, err := m.fetch(ctx)
	if err != nil || n.Spec.Unschedulable {
		return err
	}
	ops := n.cordoned().Cordon(n.Metadata.Annotations != nil, m.wanted)
	if err := m.cfg.Client.Patch(ctx, m.cfg.Client.Node(), ops); err != nil {
		return fmt.Errorf("cordon node %s: %w", m.cfg.Client.Node().Name, err)
	}
	return nil
}

// uncordon takes back what cordon wrote, and nothing else.
func (m *Manager) uncordon(ctx context.Context) error {
	n, err := m.fetch(ctx)
	if err != nil || n.Metadata.Annotations[CordonedAnnotation] == "" {
		return err
	}
	ops := n.cordoned().Uncordon(n.Spec.Unschedulable)
	if err := m.cfg.Client.Patch(ctx, m.cfg.Client.Node(), ops); err != nil {
		return fmt.Errorf("uncordon node %s: %w", m.cfg.Client.Node().Name, err)
	}
	return nil
}

func (m *Manager) fetch(ctx context.Context) (object, error) {
	var n object
	if err := m.cfg.Client.Get(ctx, m.cfg.Client.Node(), &n); err != nil {
		return object{}, fmt.Errorf("read node %s: %w", m.cfg.Client.Node().Name, err)
	}
	return n, nil
}

// cordoned is the mark of this agent's cordon on the Node as it was read.
func (n object) cordoned() kube.CordonedBy {
	return kube.CordonedBy{Annotation: CordonedAnnotation, Version: n.Metadata.ResourceVersion}
}
