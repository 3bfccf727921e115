// Package explore_test explores all interleavings of upgrades and grants. It is a package of its own because the race
// detector, with which the tests of package upgrade run, makes it take fifteen times as long.
package explore_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/grants"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/cause"
)

// node is one node of the model: its journal, its Node, and its driver.
type node struct {
	// Cause of the journal is here as a word, so that nodes compare.
	journal                 upgrade.Journal
	cause                   string
	unschedulable, cordoned bool
	foreign                 bool
	paused                  bool
	loaded                  string
	granted                 string
	shown                   shownState
}

// shownState is what the Node shows of the journal.
type shownState struct {
	state          upgrade.State
	driver, failed string
}

// world is a fleet, and how much may still go wrong in it.
type world struct {
	nodes [3]node
	// kills, failures and losses of a grant are left to happen. lost counts those that did.
	kills, failures, losses, lost int
}

type model struct {
	slots int
	// failures is how many may happen; settled is set if each upgrade of which one fails has failed.
	failures int
	settled  bool
	policy   upgrade.Policy
	// never reports a transition that must not happen.
	never func(format string, args ...any)
}

func (m model) observe(w world, i int) upgrade.Observation {
	n := w.nodes[i]
	o := upgrade.Observation{
		Target: "new", Loaded: n.loaded,
		Node: upgrade.Node{Unschedulable: n.unschedulable, Cordoned: n.cordoned, Pausable: !n.paused, Paused: n.paused, Granted: n.granted},
	}
	return o
}

// grants is what the writer of the grants decides.
func (m model) grants(w world) grants.Plan {
	var nodes []grants.Node
	for i, n := range w.nodes {
		nodes = append(nodes, grants.Node{
			Name: strconv.Itoa(i), GPU: true, Cordoned: n.unschedulable, Granted: n.granted, DaemonSet: "a/b",
			State: n.shown.state, Driver: n.shown.driver, Failed: n.shown.failed,
		})
	}
	return grants.Next(nodes, []grants.DaemonSet{{Name: "a/b", Policy: m.policy, Nodes: len(nodes)}})
}

func (w world) count(is func(node) bool) (n int) {
	for _, node := range w.nodes {
		if is(node) {
			n++
		}
	}
	return n
}

// outcome is how an action can go.
type outcome struct {
	fails, killedBefore, killedAfter bool
}

// next returns the worlds that can follow, and whether all nodes wait.
func (m model) next(w world) (out []world, quiet bool) {
	p := m.grants(w)
	quiet = len(p.Ended) == 0 && len(p.Granted) == 0
	for i := range w.nodes {
		name, written := strconv.Itoa(i), w
		if driver, grant := p.Granted[name]; grant && len(p.Ended) == 0 {
			written.nodes[i].granted = driver
			out = append(out, written.sorted())
		}
		if slices.Contains(p.Ended, name) {
			written.nodes[i].granted = ""
			out = append(out, written.sorted())
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		before := n.shown
		n.shown = shownState{upgrade.State(n.journal.State.Label()), n.journal.Target, n.journal.Failed}
		if n.shown.state == upgrade.Failed && n.journal.State != upgrade.Failed {
			n.shown.failed = ""
		}
		quiet = quiet && n.shown == before
		o := m.observe(w, i)
		a := upgrade.Next(w.nodes[i].full(), o, m.policy)
		if a.Kind == upgrade.Wait {
			out = append(out, m.take(w, i, o, a, outcome{}))
		} else {
			quiet = false
			for _, how := range outcomes(w, a) {
				out = append(out, m.take(w, i, o, a, how))
			}
		}
		if w.losses > 0 && n.granted != "" {
			lost := w
			lost.losses, lost.lost, lost.nodes[i].granted = w.losses-1, w.lost+1, ""
			out = append(out, lost.sorted())
		}
		n.shown = before
	}
	return out, quiet
}

func outcomes(w world, a upgrade.Action) []outcome {
	all := []outcome{{}}
	switch a.Kind {
	case upgrade.EvictPods, upgrade.DrainNode, upgrade.Swap, upgrade.Validate, upgrade.RollBack:
		if w.failures > 0 {
			all = append(all, outcome{fails: true})
		}
	default:
	}
	if w.kills > 0 {
		all = append(all, outcome{killedBefore: true}, outcome{killedAfter: true})
	}
	return all
}

// take is one step of a node: journal, effect, journal, of which a kill leaves out the rest.
func (m model) take(w world, i int, o upgrade.Observation, a upgrade.Action, how outcome) world {
	n := &w.nodes[i]
	n.set(upgrade.Begin(n.full(), a))
	if how.killedBefore {
		w.kills--
		return w.sorted()
	}
	m.effect(n, a, how.fails)
	if how.killedAfter {
		w.kills--
		return w.sorted()
	}
	var failed *cause.Cause
	if how.fails {
		w.failures--
		failed = &cause.Cause{Text: "broken"}
	}
	n.set(upgrade.After(n.full(), o, a, m.policy, upgrade.Result{Failed: failed}))
	return w.sorted()
}

func (m model) effect(n *node, a upgrade.Action, fails bool) {
	switch a.Kind {
	case upgrade.Cordon:
		n.unschedulable, n.cordoned = true, true
	case upgrade.Uncordon:
		n.unschedulable, n.cordoned = false, false
	case upgrade.Pause:
		n.paused = true
	case upgrade.Resume:
		n.paused = false
	case upgrade.EvictPods, upgrade.DrainNode, upgrade.Swap:
		if !n.paused {
			m.never("%s while DaemonSets hold the driver", a.Kind)
		}
		if n.journal.Attempts > 3 {
			m.never("%s is begun for ever", a.Kind)
		}
		if n.granted != "new" || !n.unschedulable {
			m.never("%s without a grant, or on a schedulable node", a.Kind)
		}
		if a.Kind == upgrade.Swap {
			n.loaded = map[bool]string{true: "", false: "new"}[fails]
		}
	case upgrade.RollBack:
		if !fails {
			n.loaded = n.journal.Previous
		}
	default:
	}
}

func (n *node) full() upgrade.Journal {
	j := n.journal
	if n.cause != "" {
		j.Cause = &cause.Cause{Text: n.cause}
	}
	return j
}

// set keeps of a cause only that there is one, so that the model is finite.
func (n *node) set(j upgrade.Journal) {
	n.cause = ""
	if j.Cause != nil {
		n.cause = "broken"
	}
	n.journal, n.journal.Cause = j, nil
}

// sorted makes worlds equal that differ only by the names of nodes.
func (w world) sorted() world {
	slices.SortFunc(w.nodes[:], func(a, b node) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return w
}

func (m model) check(w world, quiet bool) {
	if active := w.count(func(n node) bool { return n.journal.State.Active() }); active > m.slots+w.lost {
		m.never("%d nodes are in the upgrade, with %d grants at once and %d that were lost: %+v", active, m.slots, w.lost, w)
	}
	if granted := w.count(func(n node) bool { return n.granted != "" }); granted > m.slots {
		m.never("%d grants, want %d at most: %+v", granted, m.slots, w)
	}
	recorded := w.count(func(n node) bool { return n.shown.failed != "" })
	if most := m.policy.MaxFailures - 1 + m.slots + w.lost; recorded > most {
		m.never("%d nodes failed, want %d at most: %+v", recorded, most, w)
	}
	if quiet && m.settled && w.failures < m.failures && recorded == 0 {
		m.never("a failure is not recorded: %+v", w)
	}
	for _, n := range w.nodes {
		if n.foreign && !n.unschedulable {
			m.never("a node that somebody else cordoned was uncordoned: %+v", n)
		}
		if !quiet {
			continue
		}
		if n.granted != "" || n.cordoned || n.paused || n.unschedulable != n.foreign {
			m.never("the end of a node: %+v", n)
		}
		switch s := n.journal.State; {
		case s == upgrade.Done && n.loaded == "new" && n.cause == "", s == upgrade.Failed && n.cause != "":
		case s == upgrade.Required && recorded >= m.policy.MaxFailures:
		default:
			m.never("the end of a node: %+v", n)
		}
	}
}

func TestAllInterleavingsOfThreeNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		slots, kills, failures, losses, maxFailures int
		foreign, drain                              bool
	}{
		"one slot, nothing goes wrong":                 {slots: 1, maxFailures: 1},
		"one slot, one fails and one is killed":        {slots: 1, kills: 1, failures: 1, maxFailures: 1},
		"one slot, killed again and again":             {slots: 1, kills: 4, maxFailures: 2},
		"one slot, all fail, with drain":               {slots: 1, failures: 3, maxFailures: 2, drain: true},
		"one slot, a grant is lost, a kill, a failure": {slots: 1, kills: 1, failures: 1, losses: 1, maxFailures: 1},
		"one slot, one node was cordoned before":       {slots: 1, kills: 1, failures: 1, maxFailures: 2, foreign: true},
		"one slot, the driver cannot be rolled back":   {slots: 1, failures: 4, maxFailures: 1},
		"two slots, one fails and one is killed":       {slots: 2, kills: 1, failures: 1, maxFailures: 1},
		"two slots, one is lost":                       {slots: 2, failures: 1, losses: 1, maxFailures: 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := upgrade.Default()
			p.MaxFailures, p.Drain.Enable, p.WaitForCompletion.PodSelector = tc.maxFailures, tc.drain, "job=yes"
			p.MaxParallelUpgrades, p.MaxUnavailable = tc.slots, "100%"
			start := world{kills: tc.kills, failures: tc.failures, losses: tc.losses}
			for i := range start.nodes {
				foreign := tc.foreign && i == 0
				start.nodes[i] = node{loaded: "old", foreign: foreign, unschedulable: foreign}
			}
			m := model{slots: tc.slots, failures: tc.failures, settled: !tc.drain && tc.losses == 0, policy: p, never: t.Fatalf}
			t.Logf("%d worlds", m.explore(start.sorted()))
		})
	}
}

// explore visits all worlds, and checks that each of them can come to rest.
func (m model) explore(start world) int {
	from := map[world][]world{}
	seen, queue := map[world]bool{start: true}, []world{start}
	var ends []world
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		all, quiet := m.next(w)
		m.check(w, quiet)
		if quiet {
			ends = append(ends, w)
		}
		for _, next := range all {
			from[next] = append(from[next], w)
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	reaches := map[world]bool{}
	for len(ends) > 0 {
		w := ends[0]
		ends = ends[1:]
		if !reaches[w] {
			reaches[w] = true
			ends = append(ends, from[w]...)
		}
	}
	for w := range seen {
		if !reaches[w] {
			m.never("nothing ends this: %+v", w)
		}
	}
	return len(seen)
}
