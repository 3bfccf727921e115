package manager

import (
	"context"
	"strings"

	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// maxCause is the most bytes of CauseAnnotation.
const maxCause = 1024

// currentNode returns the part of the Node that decides, as it is known now.
func (m *Manager) currentNode() Node {
	n, known := m.writer.Node()
	return Node{
		Known: known, Config: n.Labels[ConfigLabel], State: State(n.Labels[StateLabel]), Cause: n.Annotations[CauseAnnotation],
		Unschedulable: n.Unschedulable, Cordoned: m.writer.Cordoned(n),
	}
}

// watch follows the Node until ctx ends.
func (m *Manager) watch(ctx context.Context) {
	var last Node
	m.writer.Watch(ctx, func() {
		if is := m.currentNode(); is != last {
			last = is
			m.loop.Wake()
		}
	})
}

// oneLine returns a cause as it is published: errors of several GPUs have several lines.
func oneLine(cause string) string {
	return text.Cut(text.Printable(strings.ReplaceAll(cause, "\n", "; ")), maxCause)
}

// changeNode reads the Node and changes it. The loop is woken: what comes next is decided by the Node as it is then.
func (m *Manager) changeNode(ctx context.Context, change func(nodestate.Node) error) error {
	n, err := m.writer.Read(ctx)
	if err == nil {
		err = change(n)
	}
	if err == nil {
		m.loop.Wake()
	}
	return err
}

// cordon makes the node unschedulable, and says in the same write who did it.
func (m *Manager) cordon(ctx context.Context) error {
	return m.changeNode(ctx, func(n nodestate.Node) error {
		if n.Unschedulable {
			return nil
		}
		return m.writer.Cordon(ctx, n, m.wanted)
	})
}

// uncordon takes back what cordon wrote, and nothing else.
func (m *Manager) uncordon(ctx context.Context) error {
	return m.changeNode(ctx, func(n nodestate.Node) error { return m.writer.Uncordon(ctx, n) })
}
