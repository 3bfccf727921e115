package publish

import (
	"maps"
	"slices"

	"outrigger.dev/agents/feature-discovery/internal/object"
)

// plan has the writes that make the Node as desired. A field that is nil needs no
// request.
type plan struct {
	// labels are applied as a whole: the API server removes labels that the agent
	// applied before and that are not among them.
	labels    map[string]string
	condition *object.Condition
	taint     *object.Taint
}

func (p plan) empty() bool { return p.labels == nil && p.condition == nil && p.taint == nil }

// planOf compares the Node with the desired state. A label with the desired value
// needs no request, whoever wrote it. A label that the agent wrote and no longer
// desires is removed.
func (n *Node) planOf(there object.Node, desired Desired) plan {
	var p plan
	if desired.Labels != nil {
		p.labels = n.labels(there, n.yield(there, desired.Labels))
	}
	if desired.Ready != nil {
		p.condition = n.condition(there, *desired.Ready)
		if desired.Ready.Status == statusTrue {
			p.taint = n.taint(there)
		}
	}
	return p
}

const statusTrue = "True"

// yield returns labels without those that the agent leaves to another writer.
func (n *Node) yield(there object.Node, labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		owners := there.Owners[key]
		return n.cfg.Yields != nil && n.cfg.Yields(key) && len(owners) > 0 && !slices.Contains(owners, n.cfg.Manager)
	})
	return out
}

// labels returns the labels to apply, nil if the Node has them.
func (n *Node) labels(there object.Node, labels map[string]string) map[string]string {
	stamps := n.cfg.Now != nil && len(labels) > 0
	now := map[string]string{}
	for key, value := range there.Labels {
		_, desired := labels[key]
		mine := slices.Contains(there.Owners[key], n.cfg.Manager)
		if desired || mine || stamps && key == Timestamp {
			now[key] = value
		}
	}
	stamped, differ := n.cfg.stamp(labels, now)
	if !differ {
		return nil
	}
	return stamped
}

// condition returns the condition to apply, nil if the Node has it. The time of the
// transition is that of the status (API conventions, "Typical status properties").
func (n *Node) condition(there object.Node, c object.Condition) *object.Condition {
	c.LastTransition = n.cfg.Time()
	for _, old := range there.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status && !old.LastTransition.IsZero() { // it is optional in the API
			c.LastTransition = old.LastTransition
		}
		if c == old {
			return nil
		}
	}
	return &c
}

// taint returns the start-up taint if the Node has it. The value is ignored, as the
// scheduler does for a toleration of the key.
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
