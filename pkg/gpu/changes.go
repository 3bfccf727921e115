package gpu

import (
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"
)

// Changes returns the events that lead from one node to the next: EventLost for each GPU with a new
// fault, EventMIGChanged for each GPU whose MIG state is the only difference, and one
// EventTopologyChanged for all other differences. A nil node is unknown.
func Changes(from, to *Node) []Event {
	if from == nil || to == nil {
		return []Event{NodeEvent(EventTopologyChanged)}
	}
	var out []Event
	// rest is a copy of the node from, with the changes that the events report.
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

// onlyMIG reports whether the MIG state is the only difference of a GPU.
func onlyMIG(was, is *GPU) bool {
	// Reflection is necessary here and below, because a GPU is a tree. A new field needs no code
	// here.
	if was.MIG == nil || is.MIG == nil || reflect.DeepEqual(was.MIG, is.MIG) {
		return false
	}
	other := *was
	other.MIG = is.MIG
	return reflect.DeepEqual(&other, is)
}

// sameNode reports whether two nodes are equal. It does not distinguish nil links and empty links.
func sameNode(a, b *Node) bool {
	return a.Driver == b.Driver && slices.Equal(a.Links, b.Links) && slices.Equal(a.Missing, b.Missing) &&
		slices.EqualFunc(a.GPUs, b.GPUs, func(x, y GPU) bool { return reflect.DeepEqual(x, y) })
}
