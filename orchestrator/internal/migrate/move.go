package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/pkg/pace"
)

// move is the way of nodes from one side to the other. Each node goes separately, and its label is its state: from,
// Between, to. So a node does not wait for another one.
type move struct {
	*Runner
	c        Component
	from, to string
	// want are the resources that each node must offer at least. Without it, only the pods must be ready.
	want map[string]map[string]int64
	// boots are the last known boots of the nodes. Nil does not wait for reboots.
	boots map[string]boot
}

// moving is a node on its way.
type moving struct {
	// value is the label of the node since began.
	value string
	began time.Time
	// works is the time since which the new side works. It is zero otherwise.
	works time.Time
}

// run moves nodes until the new side works on them. It returns why it does not work on some nodes. The error says why
// the move of all nodes has ended early. A node that is gone needs no move.
func (m *move) run(ctx context.Context, nodes []string) (failed map[string]error, err error) {
	failed = map[string]error{}
	left := map[string]*moving{}
	for _, name := range nodes {
		left[name] = &moving{began: time.Now()}
	}
	last := ""
	for {
		s, err := m.observe(ctx, m.c)
		if err != nil {
			return failed, err
		}
		var waits, moved []string
		for _, name := range slices.Sorted(maps.Keys(left)) {
			before := left[name].value
			why, err := m.advance(ctx, s, name, left[name])
			if denied(err) {
				return failed, err
			}
			if err != nil {
				why = err.Error() // the next pass tries it again
			}
			if left[name].value == m.to && before == Between {
				moved = append(moved, name)
			}
			if why == "" {
				delete(left, name)
				continue
			}
			waits = append(waits, name+": "+why)
			if left[name].works.IsZero() && time.Since(left[name].began) > m.limit(left[name].value) {
				if failed[name], err = m.expire(ctx, s.node(name), left[name].value, why); err != nil {
					return failed, err
				}
				if failed[name] == nil {
					delete(failed, name)
				}
				delete(left, name)
			}
		}
		if len(moved) > 0 {
			m.Progress("%s: the pods of %s have ended on %s", m.c.Name, side(m.from), names(moved))
		}
		if len(left) == 0 {
			return failed, nil
		}
		why := strings.Join(first(waits), "; ")
		if why != last {
			m.Progress("%s: waits: %s", m.c.Name, why)
			last = why
		}
		if !pace.Pause(ctx, m.Poll) {
			return failed, fmt.Errorf("%w while waiting: %s", context.Cause(ctx), why)
		}
	}
}

// advance takes the next step of a node. It returns "" if the node needs no further step, or what the node waits for.
func (m *move) advance(ctx context.Context, s *State, name string, at *moving) (why string, err error) {
	n := s.node(name)
	if n == nil {
		m.Progress("%s: %s is gone, or has no label %s any more", m.c.Name, name, m.c.Label)
		return "", nil
	}
	value := n.Labels[m.c.Label]
	if at.value == "" && value != m.to && !ready(n) && m.c.Name != Driver {
		return "", m.later(ctx, n)
	}
	if value != at.value {
		*at = moving{value: value, began: time.Now()}
	}
	switch value {
	case m.from:
		if m.boots != nil && down(n) {
			return "", m.later(ctx, n)
		}
		if m.boots != nil {
			if why := m.rebooted(s, n); why != "" {
				return why, nil
			}
		}
		return "its label changes", m.label(ctx, n, m.c, Between)
	case Between:
		if pods := ended(s, m.c, m.from, []string{name}); len(pods) > 0 {
			return "pods of " + side(m.from) + " still run: " + names(pods), nil
		}
		return "its label changes", m.label(ctx, n, m.c, m.to)
	case m.to:
		return m.check(s, name, at), nil
	}
	return "another program has set " + m.c.Label + "=" + value, nil
}

// check returns what a node with the new label waits for: its pods, its GPUs, and the time to settle.
func (m *move) check(s *State, name string, at *moving) string {
	why := missingOn(s, m.c, m.to, name, m.want[name])
	if why != "" {
		at.works = time.Time{}
		return why
	}
	if at.works.IsZero() {
		at.works = time.Now()
	}
	if m.c.Offers && m.want != nil && time.Since(at.works) < m.Settle {
		return "it works; its last report must be newer than the hand-over"
	}
	return ""
}

// later hands a node over whose kubelet does not run, without a check: its pods change when the node is back.
func (m *move) later(ctx context.Context, n *corev1.Node) error {
	if err := m.label(ctx, n, m.c, m.to); err != nil {
		return err
	}
	m.Progress("%s: %s is not ready: the hand-over takes effect when it is back", m.c.Name, n.Name)
	return nil
}

// expire ends the move of a node at the time limit. A node whose kubelet has stopped in the meantime has not failed. If
// its driver was to change, the move ends: it needs a kubelet.
func (m *move) expire(ctx context.Context, n *corev1.Node, value, why string) (failed, err error) {
	switch {
	case n == nil || ready(n) || m.boots != nil && value == m.from:
		return fmt.Errorf("not within %s: %s", m.limit(value), why), nil
	case m.c.Name == Driver && m.boots == nil:
		return nil, fmt.Errorf("%s is not ready any more, and stays cordoned: %s", n.Name, why)
	}
	if err := m.later(ctx, n); err != nil {
		return fmt.Errorf("not within %s: %w", m.Timeout, err), nil
	}
	return nil, nil
}

// limit returns how long a node may have a value of the label.
func (m *move) limit(value string) time.Duration {
	if m.boots != nil && value == m.from {
		return m.RebootTimeout
	}
	return m.Timeout
}

// first returns the first items of a list.
func first(all []string) []string {
	const most = 3
	return all[:min(len(all), most)]
}
