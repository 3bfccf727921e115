// Package grants permits nodes to begin the upgrade of their driver, as many as the upgrade policies
// of their DaemonSets allow.
//
// Next derives from all Nodes and DaemonSets what to write; it is pure. Writer is the loop around it,
// and the only writer of upgrade.GrantAnnotation.
package grants

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/upgrade"
)

// Node has the fields of a Node that a decision depends on.
type Node struct {
	Name string
	// GPU is set for a node with labels of NVIDIA or of its devices: others do not count.
	GPU bool
	// Out is set if labels keep the driver loader off the node. It does not begin, and what it said last
	// does not count.
	Out bool
	// Cordoned and NotReady are why a node is unavailable.
	Cordoned, NotReady bool
	// Skip is upgrade.SkipLabel, Requested is upgrade.RequestedAnnotation.
	Skip, Requested bool
	// State is upgrade.StateLabel, Driver is upgrade.DriverAnnotation, and Failed is
	// upgrade.FailedAnnotation.
	State          upgrade.State
	Driver, Failed string
	// DaemonSet is upgrade.DaemonSetAnnotation.
	DaemonSet string
	// Granted is upgrade.GrantAnnotation.
	Granted string
	// Begun is set if a writer has begun to write a grant for Driver. The write may still come.
	Begun bool
}

// DaemonSet is a DaemonSet of the driver loader, with the limits for its nodes.
type DaemonSet struct {
	// Name is namespace/name.
	Name   string
	Policy upgrade.Policy
	// Nodes is how many nodes it is for.
	Nodes int
}

// Plan lists the changes to write.
type Plan struct {
	// Ended are the nodes whose grant has to go.
	Ended []string
	// Granted has the drivers to grant, by node.
	Granted map[string]string
	// Waiting says why other nodes wait, by DaemonSet.
	Waiting map[string]upgrade.Waiting
}

// inForce reports whether the node has its grant, or may still get it.
func (n Node) inForce() bool { return n.Granted != "" || n.Begun }

// ended reports whether the node reports that it does not use its grant: it is done, it has failed,
// or it has not begun, and wants another driver or none, or has no agent.
func (n Node) ended() bool {
	switch n.State {
	case upgrade.Idle, upgrade.Done:
		return true
	case upgrade.Failed:
		return n.Failed == n.Driver // otherwise the node is on its way back
	default:
		return n.State == upgrade.Required && (n.Driver != n.Granted || n.Out)
	}
}

// waitsForGrant reports whether the node waits for a grant.
func (n Node) waitsForGrant() bool {
	return n.eligible() && !n.inForce()
}

// eligible reports whether the node may get a grant.
func (n Node) eligible() bool {
	return n.State == upgrade.Required && n.Driver != "" && !n.Skip && !n.Out
}

// count has the nodes that count against the limits, by name.
type count struct {
	granted, unavailable map[string]bool
	// failed has the nodes that failed, by driver.
	failed map[string][]string
}

// Next derives what to write. A grant that has ended counts until it is removed, so that a node that
// begins again meanwhile has its place.
func Next(nodes []Node, sets []DaemonSet) Plan {
	c := count{map[string]bool{}, map[string]bool{}, map[string][]string{}}
	p := Plan{Granted: map[string]string{}, Waiting: map[string]upgrade.Waiting{}}
	for _, n := range nodes {
		if n.Granted != "" && n.ended() {
			p.Ended = append(p.Ended, n.Name)
		}
		if n.Begun && n.Granted == "" && n.eligible() {
			p.Granted[n.Name] = n.Driver
		}
		c.add(n)
	}
	bySet := map[string]DaemonSet{}
	for _, s := range sets {
		bySet[s.Name] = s
	}
	for _, n := range queue(nodes) {
		s, known := bySet[n.DaemonSet]
		switch {
		case !known, n.NotReady:
		case c.allows(n, s):
			p.Granted[n.Name] = n.Driver
			n.Begun = true
			c.add(n)
		default:
			p.Waiting[s.Name] = c.why(p.Waiting[s.Name], n, s)
		}
	}
	return p
}

// queue returns the nodes that wait. The first one gets the next grant.
func queue(nodes []Node) []Node {
	all := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !n.waitsForGrant() })
	slices.SortFunc(all, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.Requested), rank(b.Requested)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// rank is a key for sorting: elements with first come before the others.
func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func (c count) add(n Node) {
	if n.inForce() {
		c.granted[n.Name] = true
	}
	if n.inForce() || n.GPU && (n.NotReady || n.Cordoned) {
		c.unavailable[n.Name] = true
	}
	failed := n.Failed
	if n.State == upgrade.Failed {
		failed = n.Driver
	}
	if failed != "" && !n.Out {
		c.failed[failed] = append(c.failed[failed], n.Name)
	}
}

// allows reports whether the limits leave a place for a node of a DaemonSet.
func (c count) allows(n Node, s DaemonSet) bool {
	return !c.halts(n, s) && !c.full(s) && (len(c.unavailable) < s.maxUnavailable() || c.unavailable[n.Name] && len(c.unavailable) == s.maxUnavailable())
}

// halts reports whether the driver of the node failed on too many nodes. A person can request another
// try on one node.
func (c count) halts(n Node, s DaemonSet) bool {
	most := s.Policy.MaxFailures
	return most > 0 && len(c.failed[n.Driver]) >= most && !n.Requested
}

// full reports whether as many nodes have a grant as may have one at once.
func (c count) full(s DaemonSet) bool {
	most := s.Policy.MaxParallelUpgrades
	return most > 0 && len(c.granted) >= most
}

// maxUnavailable returns how many nodes may be unavailable.
func (s DaemonSet) maxUnavailable() int { return s.Policy.MaxUnavailable.Of(s.Nodes) }

// why adds the reason for which a node waits to the reasons of its DaemonSet.
func (c count) why(w upgrade.Waiting, n Node, s DaemonSet) upgrade.Waiting {
	switch {
	case c.halts(n, s):
		if w.Halted == nil {
			w.Halted = map[string][]string{}
		}
		w.Halted[n.Driver] = sample(c.failed[n.Driver])
	case c.full(s):
		w.For = "waits for the upgrade of " + strings.Join(sample(slices.Sorted(maps.Keys(c.granted))), ", ")
	default:
		w.For = fmt.Sprintf("waits, because maxUnavailable is %s, and these nodes are upgraded, cordoned or not ready: %s",
			s.Policy.MaxUnavailable, strings.Join(sample(slices.Sorted(maps.Keys(c.unavailable))), ", "))
	}
	return w
}

// maxNamed is how many of many nodes are named.
const maxNamed = 5

// sample names some of many nodes.
func sample(names []string) []string {
	if more := len(names) - maxNamed; more > 0 {
		return append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return names
}
