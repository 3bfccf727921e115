package grants_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/grants"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
)

const set = "gpus/driver-loader"

// waiting returns a node that waits for driver 2.
func waiting(name string, change ...func(*grants.Node)) grants.Node {
	n := grants.Node{Name: name, GPU: true, State: upgrade.Required, Driver: "2", DaemonSet: set}
	for _, c := range change {
		c(&n)
	}
	return n
}

// with returns a node that waits for nothing.
func with(name string, change func(*grants.Node)) grants.Node {
	n := grants.Node{Name: name, GPU: true}
	change(&n)
	return n
}

func TestNext(t *testing.T) {
	limits := func(parallel int, unavailable upgrade.Amount, failures int) upgrade.Policy {
		p := upgrade.Default()
		p.MaxParallelUpgrades, p.MaxUnavailable, p.MaxFailures = parallel, unavailable, failures
		return p
	}
	in := func(state upgrade.State, granted string) func(*grants.Node) {
		return func(n *grants.Node) {
			n.State, n.Driver, n.Granted = state, "2", granted
			if state == upgrade.Failed {
				n.Failed = "2"
			}
		}
	}
	sparing := limits(0, "100%", 1)
	sparing.SkipCordoned = true
	two := []grants.Node{waiting("a"), waiting("b")}
	for name, tc := range map[string]struct {
		nodes []grants.Node
		p     upgrade.Policy
		// granted and ended are names, halted the failed nodes that halt driver 2.
		granted, ended, halted []string
		// why is a part of what others wait for.
		why string
	}{
		"one at once":                           {nodes: two, p: limits(1, "100%", 1), granted: []string{"a"}, why: "waits for the upgrade of a"},
		"as many as may be unavailable":         {nodes: two, p: limits(0, "2", 1), granted: []string{"a", "b"}},
		"a share of the DaemonSet's nodes":      {nodes: append(two, waiting("c"), waiting("d")), p: limits(0, "30%", 1), granted: []string{"a", "b", "c"}, why: "maxUnavailable is 30%"},
		"one that is cordoned":                  {nodes: append(two, with("x", func(n *grants.Node) { n.Cordoned = true })), p: limits(0, "2", 1), granted: []string{"a"}, why: "cordoned or not ready: a, x"},
		"one that is not ready":                 {nodes: append(two, with("x", func(n *grants.Node) { n.NotReady = true })), p: limits(0, "2", 1), granted: []string{"a"}, why: "cordoned or not ready: a, x"},
		"one that is both counts once":          {nodes: append(two, with("x", func(n *grants.Node) { n.Cordoned, n.NotReady = true, true })), p: limits(0, "3", 1), granted: []string{"a", "b"}},
		"one that is granted and cordoned":      {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Draining, "2")(n); n.Cordoned = true })), p: limits(0, "2", 1), granted: []string{"a"}, why: "ready: a, x"},
		"one without GPUs":                      {nodes: append(two, grants.Node{Name: "x", NotReady: true, Cordoned: true}), p: limits(0, "2", 1), granted: []string{"a", "b"}},
		"one that was cordoned before":          {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.Cordoned = true })}, p: limits(1, "1", 1), granted: []string{"a"}},
		"one that is cordoned is left alone":    {nodes: append(two, waiting("x", func(n *grants.Node) { n.Cordoned = true })), p: sparing, granted: []string{"a", "b"}},
		"more are cordoned than may be":         {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.Cordoned = true }), with("x", func(n *grants.Node) { n.Cordoned = true })}, p: limits(1, "1", 1), why: "maxUnavailable is 1"},
		"one that waits and is not ready":       {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.NotReady = true })}, p: limits(1, "100%", 1)},
		"one with the skip label":               {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.Skip = true })}, p: limits(1, "100%", 1)},
		"one that labels keep the agent off":    {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.Out = true })}, p: limits(1, "100%", 1)},
		"one that was kept off after its grant": {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Required, "2")(n); n.Out = true })), p: limits(1, "100%", 1), ended: []string{"x"}, why: "waits for the upgrade of x"},
		"one that was kept off in its upgrade":  {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Swapping, "2")(n); n.Out = true })), p: limits(1, "100%", 1), why: "waits for the upgrade of x"},
		"one that was kept off after a failure": {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Failed, "")(n); n.Out = true })), p: limits(1, "100%", 1), granted: []string{"a"}, why: "waits for the upgrade of a"},
		"one of no DaemonSet of the driver":     {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.DaemonSet = "other/driver-loader" })}, p: limits(1, "100%", 1)},
		"one that names no driver":              {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.Driver = "" })}, p: limits(1, "100%", 1)},
		"one whose grant may still come":        {nodes: []grants.Node{waiting("a"), waiting("b", func(n *grants.Node) { n.Begun = true })}, p: limits(1, "100%", 1), granted: []string{"b"}, why: "waits for the upgrade of b"},
		"one that is being upgraded":            {nodes: append(two, with("x", in(upgrade.Swapping, "2"))), p: limits(1, "100%", 1), why: "waits for the upgrade of x"},
		"one that is dead in its upgrade":       {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Swapping, "2")(n); n.NotReady = true })), p: limits(1, "100%", 1), why: "waits for the upgrade of x"},
		"one that has not begun":                {nodes: append(two, with("x", in(upgrade.Required, "2"))), p: limits(1, "100%", 1), why: "waits for the upgrade of x"},
		"one that is done":                      {nodes: append(two, with("x", in(upgrade.Done, "2"))), p: limits(1, "100%", 1), ended: []string{"x"}, why: "waits for the upgrade of x"},
		"one that has left":                     {nodes: append(two, with("x", in(upgrade.Idle, "2"))), p: limits(1, "100%", 1), ended: []string{"x"}, why: "waits for the upgrade of x"},
		"one that failed":                       {nodes: append(two, with("x", in(upgrade.Failed, "2"))), p: limits(1, "100%", 1), ended: []string{"x"}, halted: []string{"x"}},
		"one that failed and goes back":         {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Failed, "2")(n); n.Failed = "" })), p: limits(10, "100%", 1), halted: []string{"x"}},
		"one that goes back again":              {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Failed, "2")(n); n.Failed = "1" })), p: limits(10, "100%", 1), halted: []string{"x"}},
		"the grant is for another driver":       {nodes: []grants.Node{waiting("a", func(n *grants.Node) { n.Granted = "1.5" })}, p: limits(1, "100%", 1), ended: []string{"a"}},
		"it began with another driver":          {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Swapping, "1.5")(n); n.Driver = "1.5" })), p: limits(1, "100%", 1), why: "waits for the upgrade of x"},
		"it was deleted and has come back":      {nodes: []grants.Node{waiting("a")}, p: limits(1, "100%", 1), granted: []string{"a"}},
		"one failed with this driver":           {nodes: append(two, with("x", in(upgrade.Failed, ""))), p: limits(10, "100%", 1), halted: []string{"x"}},
		"it is tried again":                     {nodes: append(two, with("x", func(n *grants.Node) { in(upgrade.Draining, "2")(n); n.Failed = "2" })), p: limits(10, "100%", 1), halted: []string{"x"}},
		"one failed with another driver":        {nodes: append(two, with("x", func(n *grants.Node) { n.State, n.Driver, n.Failed = upgrade.Failed, "1.5", "1.5" })), p: limits(2, "100%", 1), granted: []string{"a", "b"}},
		"fewer failed than may":                 {nodes: append(two, with("x", in(upgrade.Failed, ""))), p: limits(2, "100%", 2), granted: []string{"a", "b"}},
		"as many may fail as want":              {nodes: append(two, with("x", in(upgrade.Failed, ""))), p: limits(2, "100%", 0), granted: []string{"a", "b"}},
		"somebody asks for one after a failure": {nodes: append(two, with("x", in(upgrade.Failed, "")), waiting("z", func(n *grants.Node) { n.Requested = true })), p: limits(1, "100%", 1), granted: []string{"z"}, halted: []string{"x"}},
		"somebody asks for one, beyond a limit": {nodes: append(two, with("x", in(upgrade.Swapping, "2")), waiting("z", func(n *grants.Node) { n.Requested = true })), p: limits(1, "100%", 1), why: "waits for the upgrade of x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := grants.Next(slices.Clone(tc.nodes), []grants.DaemonSet{{Name: set, Policy: tc.p, Nodes: 10}})
			var granted []string
			for _, n := range tc.nodes {
				if driver, is := got.Granted[n.Name]; is {
					granted = append(granted, n.Name)
					if driver != n.Driver {
						t.Errorf("%s gets a grant for %s", n.Name, driver)
					}
				}
			}
			if diff := cmp.Diff([][]string{tc.granted, tc.ended, tc.halted}, [][]string{granted, got.Ended, got.Waiting[set].Halted["2"]}); diff != "" {
				t.Errorf("granted, ended and halted (-want +got):\n%s", diff)
			}
			if why := got.Waiting[set].For; !strings.Contains(why, tc.why) || tc.why == "" && why != "" {
				t.Errorf("others wait because %q, want %q", why, tc.why)
			}
		})
	}
}

// TestEachPoolHasItsLimits and all count all nodes.
func TestEachPoolHasItsLimits(t *testing.T) {
	one, many := upgrade.Default(), upgrade.Default()
	one.MaxUnavailable, many.MaxUnavailable, many.MaxParallelUpgrades = "100%", "3", 0
	other := func(n *grants.Node) { n.DaemonSet = "gpus/other" }
	nodes := []grants.Node{waiting("a"), waiting("b"), waiting("c", other), waiting("d", other), waiting("e", other)}
	sets := []grants.DaemonSet{{Name: set, Policy: one, Nodes: 2}, {Name: "gpus/other", Policy: many, Nodes: 3}}
	got := grants.Next(nodes, sets)
	if diff := cmp.Diff(map[string]string{"a": "2", "c": "2", "d": "2"}, got.Granted); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{set: "waits for the upgrade of a", "gpus/other": "waits, because maxUnavailable is 3, and these nodes are in an upgrade, cordoned or not ready: a, c, d"} {
		if got.Waiting[name].For != want {
			t.Errorf("%s waits because %q, want %q", name, got.Waiting[name].For, want)
		}
	}
}

// model is a cluster with versions of objects, in which writers are killed and stand still anywhere.
type model struct {
	*rand.Rand
	nodes    map[string]*modelNode
	versions int
	// begun and turn are the board.
	begun map[string]int
	turn  int
}

type modelNode struct {
	grants.Node
	version int
}

// writer is where a writer stands.
type writer struct {
	turn     int
	versions map[string]int
	plan     grants.Plan
	// writes are what is left of the plan; nil before there is one.
	writes []string
}

func (m *model) change(n *modelNode, change func(*grants.Node)) {
	m.versions++
	n.version = m.versions
	change(&n.Node)
}

// step does the next thing of a writer: reads the board, reads the Nodes, writes the board, or writes a
// Node.
func (m *model) step(w *writer, policy upgrade.Policy) {
	switch {
	case w.versions == nil:
		begun := m.begun
		var nodes []grants.Node
		w.versions = map[string]int{}
		for name, n := range m.nodes {
			read := n.Node
			read.Begun = begun[name] == n.version
			nodes, w.versions[name] = append(nodes, read), n.version
		}
		w.plan = grants.Next(nodes, []grants.DaemonSet{{Name: set, Policy: policy, Nodes: len(nodes)}})
	case w.writes == nil && len(w.plan.Ended) > 0:
		w.writes = w.plan.Ended
	case w.writes == nil:
		if m.turn != w.turn {
			*w = writer{turn: m.turn}
			return
		}
		m.turn++
		m.begun, w.writes = map[string]int{}, []string{}
		for name := range w.plan.Granted {
			m.begun[name], w.writes = w.versions[name], append(w.writes, name)
		}
	case len(w.writes) > 0:
		name := w.writes[0]
		w.writes = w.writes[1:]
		if n := m.nodes[name]; n != nil && n.version == w.versions[name] {
			m.change(n, func(n *grants.Node) { n.Granted = w.plan.Granted[name] }) // none for one that has ended
		}
	default:
		*w = writer{turn: m.turn}
	}
}

// live changes a node as its agent, its kubelet or people do.
func (m *model) live(n *modelNode) {
	m.change(n, func(n *grants.Node) {
		switch m.IntN(8) {
		case 0:
			n.NotReady = !n.NotReady
		case 1:
			n.Cordoned = !n.Cordoned
		case 2: // nothing that counts
		case 3:
			*n = grants.Node{Name: n.Name, GPU: true, DaemonSet: n.DaemonSet} // deleted, and registered again
		case 4, 5:
			switch {
			case n.State == upgrade.Required && n.Granted == n.Driver:
				n.State = upgrade.Swapping
			case n.State == upgrade.Swapping:
				n.State = []upgrade.State{upgrade.Done, upgrade.Failed}[m.IntN(2)]
				if n.Failed = ""; n.State == upgrade.Failed {
					n.Failed = n.Driver
				}
			default:
				n.State, n.Driver = upgrade.Required, fmt.Sprint(m.IntN(2))
			}
		case 6:
			if n.State == upgrade.Required { // another driver is desired, or none
				n.State, n.Driver = []upgrade.State{upgrade.Required, upgrade.Idle}[m.IntN(2)], fmt.Sprint(m.IntN(2))
			}
		default:
			n.Requested = !n.Requested
		}
	})
}

// TestGrantsNeverExceedTheLimit with two writers at once, each of which is killed or stands still
// between any two of its requests.
func TestGrantsNeverExceedTheLimit(t *testing.T) {
	all := 0
	for seed := range uint64(100) {
		m := model{Rand: rand.New(rand.NewPCG(seed, 1)), nodes: map[string]*modelNode{}, versions: 1}
		policy := upgrade.Default()
		policy.MaxParallelUpgrades, policy.MaxUnavailable, policy.MaxFailures = m.IntN(3), upgrade.Amount(fmt.Sprint(1+m.IntN(4))), m.IntN(2)
		for i := range 6 {
			name := fmt.Sprint(i)
			m.nodes[name] = &modelNode{Node: waiting(name), version: 1}
		}
		limit := policy.MaxUnavailable.Of(0)
		if policy.MaxParallelUpgrades > 0 {
			limit = min(limit, policy.MaxParallelUpgrades)
		}
		writers := []*writer{{}, {}}
		for range 1000 {
			switch w := m.IntN(10); {
			case w < 6:
				m.step(writers[m.IntN(2)], policy)
			case w < 7:
				*writers[m.IntN(2)] = writer{turn: m.turn}
			default:
				m.live(m.nodes[fmt.Sprint(m.IntN(6))])
			}
			granted := 0
			for _, n := range m.nodes {
				if n.Granted != "" {
					granted++
				}
			}
			if all += granted; granted > limit {
				t.Fatalf("seed %d: %d grants are in force, want %d at most", seed, granted, limit)
			}
		}
	}
	if all == 0 {
		t.Error("nothing was ever granted")
	}
}

// What a node reports has a limit, so that no node fills the board.
func TestReportsAreShort(t *testing.T) {
	for name, tc := range map[string]struct {
		labels, annotations string
		want                grants.Node
	}{
		"a name":       {`{}`, `{"outrigger.dev/driver-upgrade-driver":"580.95.05"}`, grants.Node{Driver: "580.95.05"}},
		"no name":      {`{}`, `{"outrigger.dev/driver-upgrade-driver":"` + strings.Repeat("<", 254) + `"}`, grants.Node{}},
		"kept off":     {`{"nvidia.com/gpu.deploy.driver":"false"}`, `{}`, grants.Node{GPU: true, Out: true}},
		"all kept off": {`{"nvidia.com/gpu.deploy.operands":"false"}`, `{}`, grants.Node{GPU: true, Out: true}},
		"NFD alone":    {`{"feature.node.kubernetes.io/pci-10de.present":"true"}`, `{}`, grants.Node{GPU: true}},
	} {
		var got grants.Node
		assert.NilError(t, json.Unmarshal([]byte(`{"metadata":{"labels":`+tc.labels+`,"annotations":`+tc.annotations+`}}`), &got))
		tc.want.NotReady = true
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
