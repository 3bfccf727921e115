package gpu

import (
	"reflect" // DeepEqual: slices, maps or pointers are in the values
	"slices"
)

// Changes returns the events that lead from one node to the next: EventLost for
// each GPU that has a new fault, EventMIGChanged for each GPU of which only the MIG
// state differs, and one EventTopologyChanged for all other differences. A nil node
// is one that is not known.
func Changes(from, to *Node) []Event {
	if from == nil || to == nil {
		return []Event{NodeEvent(EventTopologyChanged)}
	}
	var out []Event
	// rest is from, with the changes that the events report.
	rest := *from
	rest.GPUs = slices.Clone(from.GPUs)
	broken := map[int]bool{}
	for i := range to.GPUs {
		g := &to.GPUs[i]
		was := rest.ByUUID(g.UUID)
		if was == nil {
			continue
		}
		if was.Fault == nil && g.Fault != nil {
			was.Fault, broken[was.Index] = g.Fault, true
			out = append(out, GPUEvent(EventLost, g.UUID))
		}
		if onlyMIG(was, g) {
			was.MIG = g.MIG
			out = append(out, GPUEvent(EventMIGChanged, g.UUID))
		}
	}
	rest.Links = slices.DeleteFunc(slices.Clone(from.Links), func(l Link) bool { return broken[l.A] || broken[l.B] })
	if !sameNode(&rest, to) {
		out = append(out, NodeEvent(EventTopologyChanged))
	}
	return out
}

// onlyMIG reports whether the MIG state of a GPU differs, and nothing else.
func onlyMIG(was, is *GPU) bool {
	// Reflection here and below, because a GPU is a tree: a new field of it counts without a line here.
	if was.MIG == nil || is.MIG == nil || reflect.DeepEqual(was.MIG, is.MIG) {
		return false
	}
	other := *was
	other.MIG = is.MIG
	return reflect.DeepEqual(&other, is)
}

// sameNode reports whether two nodes are equal; no links and nil links are equal.
func sameNode(a, b *Node) bool {
	return a.Driver == b.Driver && slices.Equal(a.Links, b.Links) && slices.Equal(a.Missing, b.Missing) &&
		slices.EqualFunc(a.GPUs, b.GPUs, func(x, y GPU) bool { return reflect.DeepEqual(x, y) })
}
