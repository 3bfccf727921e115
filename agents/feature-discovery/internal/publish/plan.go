package publish

import (
	"maps"
	"slices"

	"outrigger.dev/agents/feature-discovery/internal/object"
)

// plan is what it takes to make the Node as it is wanted. What is not set needs
// no request.
type plan struct {
	// labels are applied as a whole: what the agent applied before and they do
	// not name is removed.
	labels    map[string]string
	condition *object.Condition
	taint     *object.Taint
}

func (p plan) empty() bool { return p.labels == nil && p.condition == nil && p.taint == nil }

// planOf compares the Node as it is with what is wanted of it. The manager is
// the agent's name as an owner of fields.
//
// A label that is right needs no request, whoever wrote it; one that the agent
// wrote and does not want any more does.
func (n *Node) planOf(there object.Node, w Wanted) plan {
	var p plan
	if w.Labels != nil {
		p.labels = n.labels(there, n.yield(there, w.Labels))
	}
	if w.Ready != nil {
		p.condition = n.condition(there, *w.Ready)
		if w.Ready.Status == statusTrue {
			p.taint = n.taint(there)
		}
	}
	return p
}

const statusTrue = "True"

// yield returns labels without those that are another writer's, where that one
// comes first.
func (n *Node) yield(there object.Node, labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		owners := there.Owners[key]
		return n.cfg.Yields != nil && n.cfg.Yields(key) && len(owners) > 0 && !slices.Contains(owners, n.cfg.Manager)
	})
	return out
}

// labels returns what has to be applied, nil if all is as it should be.
func (n *Node) labels(there object.Node, labels map[string]string) map[string]string {
	stamps := n.cfg.Now != nil && len(labels) > 0
	now := map[string]string{}
	for key, value := range there.Labels {
		_, wanted := labels[key]
		mine := slices.Contains(there.Owners[key], n.cfg.Manager)
		if wanted || mine || stamps && key == Timestamp {
			now[key] = value
		}
	}
	stamped, differ := n.cfg.stamp(labels, now)
	if !differ {
		return nil
	}
	return stamped
}

// condition returns what has to be applied, nil if all is as it should be. The
// time of the transition is that of the status (API conventions, "Typical status
// properties").
func (n *Node) condition(there object.Node, c object.Condition) *object.Condition {
	c.LastTransition = n.cfg.Time()
	for _, old := range there.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status && !old.LastTransition.IsZero() { // which people may leave out
			c.LastTransition = old.LastTransition
		}
		if c == old {
			return nil
		}
	}
	return &c
}

// taint returns the start-up taint if the Node has it. Its value does not count,
// as it does not for the scheduler's tolerations of a key.
func (n *Node) taint(there object.Node) *object.Taint {
	want := n.cfg.Taint
	if want.Key == "" {
		return nil
	}
	for _, t := range there.Taints {
		if t.Key == want.Key && t.Effect == want.Effect {
			return &want
		}
	}
	return nil
}
