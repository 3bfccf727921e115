package manager

import (
	"context"
	"strings"

	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// maxCause is the largest size of CauseAnnotation, in bytes.
const maxCause = 1024

// currentNode returns the last observed fields of the Node that Next needs.
func (m *Manager) currentNode() Node {
	n, known := m.writer.Node()
	return Node{
		Known: known, Config: n.Labels[ConfigLabel], State: State(n.Labels[StateLabel]), Cause: n.Annotations[CauseAnnotation],
		Unschedulable: n.Unschedulable, Cordoned: m.writer.Cordoned(n), Pausable: m.writer.Pausable(n), Paused: m.writer.Paused(n),
	}
}

// watch watches the Node until ctx ends.
func (m *Manager) watch(ctx context.Context) {
	var last Node
	m.writer.Watch(ctx, func() {
		if is := m.currentNode(); is != last {
			last = is
			m.loop.Wake()
		}
	})
}

// oneLine returns a cause as one line with a limited length. Errors of several GPUs have several lines.
func oneLine(cause string) string {
	return text.Cut(text.Printable(strings.ReplaceAll(cause, "\n", "; ")), maxCause)
}

// changeNode reads the Node and changes it. It wakes the loop, so that the changed Node is observed.
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

// cordon cordons the node, and records in the same patch that this agent did it.
func (m *Manager) cordon(ctx context.Context) error {
	return m.changeNode(ctx, func(n nodestate.Node) error {
		if n.Unschedulable {
			return nil
		}
		return m.writer.Cordon(ctx, n, m.wanted)
	})
}

// uncordon removes the cordon of this agent, and its record.
func (m *Manager) uncordon(ctx context.Context) error {
	return m.changeNode(ctx, func(n nodestate.Node) error { return m.writer.Uncordon(ctx, n) })
}

// pause keeps DaemonSets that hold the driver off the node.
func (m *Manager) pause(ctx context.Context) error {
	return m.changeNode(ctx, func(n nodestate.Node) error { return m.writer.Pause(ctx, n, m.wanted) })
}

// resume lets these DaemonSets return.
func (m *Manager) resume(ctx context.Context) error {
	return m.changeNode(ctx, func(n nodestate.Node) error { return m.writer.Resume(ctx, n) })
}
