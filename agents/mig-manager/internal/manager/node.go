package manager

import (
	"context"
	"fmt"
	"strings"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/text"
)

// maxCause is the most bytes of CauseAnnotation.
const maxCause = 1024

// metadata is that of a Node without what changes with each heartbeat, and spec what is read of its spec.
type (
	metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	spec struct {
		Unschedulable bool `json:"unschedulable"`
	}
)

// object is what is read of the Node.
type object struct {
	Metadata struct {
		metadata
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec spec `json:"spec"`
}

// seen is what is watched of the Node.
type seen struct {
	Metadata metadata `json:"metadata"`
	Spec     spec     `json:"spec"`
}

// node returns what decides.
func (n seen) node() Node {
	return Node{
		Known: true, Config: n.Metadata.Labels[ConfigLabel], State: State(n.Metadata.Labels[StateLabel]),
		Cause:         n.Metadata.Annotations[CauseAnnotation],
		Unschedulable: n.Spec.Unschedulable, Cordoned: n.Metadata.Annotations[CordonedAnnotation] != "",
	}
}

// watch follows the Node until ctx ends.
func (m *Manager) watch(ctx context.Context) {
	kube.Watch(ctx, m.cfg.Client, kube.Query{Object: m.cfg.Client.Node()}, func(nodes []seen) {
		for _, n := range nodes {
			if is := n.node(); *m.delivered.Swap(&is) != is {
				m.loop.Wake()
			}
		}
	})
}

// oneLine returns a cause as it is published: errors of several GPUs have several lines.
func oneLine(cause string) string {
	return text.Cut(text.Printable(strings.ReplaceAll(cause, "\n", "; ")), maxCause)
}

// cordon makes the node unschedulable, and says in the same write who did it.
func (m *Manager) cordon(ctx context.Context) error {
	n, err := m.fetch(ctx)
	if err != nil || n.Spec.Unschedulable {
		return err
	}
	return m.patch(ctx, "cordon", n.cordoned().Cordon(n.Metadata.Annotations != nil, m.wanted))
}

// uncordon takes back what cordon wrote, and nothing else.
func (m *Manager) uncordon(ctx context.Context) error {
	n, err := m.fetch(ctx)
	if err != nil || n.Metadata.Annotations[CordonedAnnotation] == "" {
		return err
	}
	return m.patch(ctx, "uncordon", n.cordoned().Uncordon(n.Spec.Unschedulable))
}

func (m *Manager) patch(ctx context.Context, what string, ops []kube.Operation) error {
	node := m.cfg.Client.Node()
	if err := m.cfg.Client.Patch(ctx, node, ops); err != nil {
		return fmt.Errorf("%s node %s: %w", what, node.Name, err)
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
