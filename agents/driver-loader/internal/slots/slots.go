// Package slots shares the upgrade slots of a cluster among its nodes. A slot is a Lease
// in the agent's namespace. The Lease also has the failures of the nodes that held it, so
// that one write frees a slot and tells the others why they should not take it.
//
// A node that does not renew its Lease loses it. Clocks of other nodes are not compared:
// a Lease has expired when this process has seen no change of it for its whole duration.
package slots

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Prefix is how the names of the Leases begin: driver-upgrade-0, and so on.
const Prefix = "driver-upgrade-"

// FailuresAnnotation is the annotation of a Lease with the nodes whose upgrade failed: a
// JSON object of the name of a node and the driver.
const FailuresAnnotation = "outrigger.dev/driver-upgrade-failures"

const (
	// Duration is how long a node keeps a slot that it does not renew. It is longer than a
	// restart of the agent, and shorter than what operators wait for a node that died.
	Duration = 5 * time.Minute
	// RenewEvery is the time between two renewals.
	RenewEvery = Duration / 5
	// fence is how long after a renewal a node relies on its slot. Others wait longer.
	fence = Duration * 3 / 5
	// maxFailures is how many failures one Lease has at most.
	maxFailures = 100
	// maxAnnotation is the most bytes of FailuresAnnotation that are read.
	maxAnnotation = 64 << 10
)

// Lease is what a slot needs of a Lease (coordination.k8s.io/v1).
type Lease struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Holder      string `json:"holderIdentity"`
		Transitions int    `json:"leaseTransitions"`
	} `json:"spec"`
}

// failures returns the drivers that failed, by node. What somebody else wrote counts for none.
func (l Lease) failures() map[string]string {
	text := l.Metadata.Annotations[FailuresAnnotation]
	failed := map[string]string{}
	if len(text) > maxAnnotation || json.Unmarshal([]byte(text), &failed) != nil || failed == nil {
		return map[string]string{}
	}
	return failed
}

// Want is what a node wants a slot for.
type Want struct {
	// Driver identifies the driver to upgrade to.
	Driver string
	// Slots is how many nodes are upgraded at once. At least 1.
	Slots int
	// MaxFailures is the number of nodes at whose failure with Driver nobody begins; 0 for no limit.
	MaxFailures int
}

// View is how a node stands.
type View struct {
	// Held is set while this node has a slot, and no other node takes it.
	Held bool
	// Holders are the other nodes that have one.
	Holders []string
	// Failed are the nodes that failed with the driver, if they halt the fleet.
	Failed []string

	// free are the names of slots that can be taken.
	free []string
}

// Free reports whether the node can take a slot.
func (v View) Free() bool { return len(v.free) > 0 }

// sighting is when this process first saw a version of a Lease.
type sighting struct {
	version string
	at      time.Time
}

// self is the node that looks.
type self struct {
	name string
	// renewed is when it renewed its slot, and now is when it looks.
	renewed, now time.Time
}

// derive returns how a node stands. seen has all leases. A slot that the node did not renew in
// time is not Held.
func derive(leases []Lease, seen map[string]sighting, me self, w Want) View {
	var v View
	failed := map[string]bool{}
	taken, states := 0, map[string]bool{}
	for _, l := range leases {
		for node, driver := range l.failures() {
			if driver == w.Driver {
				failed[node] = true
			}
		}
		expired := me.now.Sub(seen[l.Metadata.Name].at) >= Duration
		switch holder := l.Spec.Holder; {
		case holder == "", holder != me.name && expired:
			states[l.Metadata.Name] = true
		case holder == me.name:
			v.Held = me.now.Sub(me.renewed) < fence
			states[l.Metadata.Name] = false
			taken++
		default:
			v.Holders = append(v.Holders, holder)
			states[l.Metadata.Name] = false
			taken++
		}
	}
	slices.Sort(v.Holders)
	if w.MaxFailures > 0 && len(failed) >= w.MaxFailures {
		v.Failed = slices.Sorted(maps.Keys(failed))
	}
	for i := 0; taken < w.Slots && i < w.Slots && len(v.Failed) == 0; i++ {
		name := fmt.Sprint(Prefix, i)
		if free, known := states[name]; free || !known {
			v.free = append(v.free, name)
		}
	}
	return v
}

// ours returns the Leases that are slots, in the order of their names.
func ours(all []Lease) []Lease {
	all = slices.DeleteFunc(all, func(l Lease) bool { return !strings.HasPrefix(l.Metadata.Name, Prefix) })
	slices.SortFunc(all, func(a, b Lease) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return all
}

// settled returns the failures of a Lease after those of a node are replaced: by none if
// driver is empty. Those of other drivers make room.
func settled(failures map[string]string, node, driver string) map[string]string {
	failures = maps.Clone(failures)
	delete(failures, node)
	if driver == "" {
		return failures
	}
	if len(failures) >= maxFailures {
		maps.DeleteFunc(failures, func(_, other string) bool { return other != driver })
	}
	if len(failures) < maxFailures {
		failures[node] = driver
	}
	return failures
}
