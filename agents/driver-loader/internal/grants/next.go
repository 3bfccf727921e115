// Package grants permits nodes to begin the upgrade of their driver, within the limits of the upgrade
// policies of their DaemonSets.
//
// Next is pure: it derives the changes from all Nodes and DaemonSets. Writer is the loop around it,
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

// Node holds the fields of a Node that Next needs.
type Node struct {
	Name string
	// GPU is set if labels show NVIDIA's devices. Other nodes count as unavailable only with a grant.
	GPU bool
	// Out is set if labels keep the driver loader off the node. The node does not begin an upgrade,
	// and its last report does not count.
	Out bool
	// Cordoned and NotReady make the node unavailable.
	Cordoned, NotReady bool
	// Skip is the value of upgrade.SkipLabel, and Requested the value of upgrade.RequestedAnnotation.
	Skip, Requested bool
	// State is the value of upgrade.StateLabel, Driver the value of upgrade.DriverAnnotation, and
	// Failed the value of upgrade.FailedAnnotation.
	State          upgrade.State
	Driver, Failed string
	// DaemonSet is the value of upgrade.DaemonSetAnnotation.
	DaemonSet string
	// Granted is the value of upgrade.GrantAnnotation.
	Granted string
	// Begun is set if a writer has announced that it grants Driver to the node, and may still write
	// this grant.
	Begun bool
}

// DaemonSet is a DaemonSet of the driver loader, with the limits for its nodes.
type DaemonSet struct {
	// Name is namespace/name.
	Name   string
	Policy upgrade.Policy
	// Nodes is the desired number of nodes with its pods, and with the pods of the other DaemonSets of its release.
	Nodes int
}

// Plan lists the changes to write.
type Plan struct {
	// Ended lists the nodes whose grant is removed.
	Ended []string
	// Granted maps nodes to the drivers to grant.
	Granted map[string]string
	// Waiting has the reasons why other nodes wait, by DaemonSet.
	Waiting map[string]upgrade.Waiting
}

// inForce reports whether the node has a grant, or may still get an announced one.
func (n Node) inForce() bool { return n.Granted != "" || n.Begun }

// ended reports whether the node does not need its grant any more. The upgrade is done or has failed,
// or it has not begun and the node desires another driver or none, or runs no agent.
func (n Node) ended() bool {
	switch n.State {
	case upgrade.Idle, upgrade.Done:
		return true
	case upgrade.Failed:
		return n.Failed == n.Driver // otherwise the node is rolling back
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

// count holds the nodes that count against the limits, by name.
type count struct {
	granted, unavailable map[string]bool
	// failed lists the nodes that failed, by driver.
	failed map[string][]string
}

// Next derives the changes to write. A grant that has ended counts until it is removed, so that a node
// that begins again in the meantime does not exceed the limits.
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
		case !known, n.NotReady, n.Cordoned && s.Policy.SkipCordoned: // the agent says why it waits
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

// queue returns the nodes that wait for a grant. The first node gets the next grant.
func queue(nodes []Node) []Node {
	all := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !n.waitsForGrant() })
	slices.SortFunc(all, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.Requested), rank(b.Requested)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// rank is a sort key: true comes before false.
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

// allows reports whether a node of a DaemonSet can get a grant within the limits.
func (c count) allows(n Node, s DaemonSet) bool {
	return !c.halts(n, s) && !c.full(s) && (len(c.unavailable) < s.maxUnavailable() || c.unavailable[n.Name] && len(c.unavailable) == s.maxUnavailable())
}

// halts reports whether the driver of the node has failed on too many nodes. A request for the node
// overrides that.
func (c count) halts(n Node, s DaemonSet) bool {
	most := s.Policy.MaxFailures
	return most > 0 && len(c.failed[n.Driver]) >= most && !n.Requested
}

// full reports whether the largest number of nodes has a grant.
func (c count) full(s DaemonSet) bool {
	most := s.Policy.MaxParallelUpgrades
	return most > 0 && len(c.granted) >= most
}

// maxUnavailable returns how many nodes may be unavailable.
func (s DaemonSet) maxUnavailable() int { return s.Policy.MaxUnavailable.Of(s.Nodes) }

// why adds the reason why a node waits to the reasons of its DaemonSet.
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
		w.For = fmt.Sprintf("waits, because maxUnavailable is %s, and these nodes are in an upgrade, cordoned or not ready: %s",
			s.Policy.MaxUnavailable, strings.Join(sample(slices.Sorted(maps.Keys(c.unavailable))), ", "))
	}
	return w
}

// maxNamed is the largest number of nodes that a text names.
const maxNamed = 5

// sample returns the first names, and the number of the others.
func sample(names []string) []string {
	if more := len(names) - maxNamed; more > 0 {
		return append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return names
}
