package upgrade_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
)

// TestUpgrade runs agents of nodes against a real API server.
func TestUpgrade(t *testing.T) {
	s := newServer(t)
	for name, test := range map[string]func(*fleet){
		"upgrade":         (*fleet).testsAnUpgradeOfANode,
		"roll-back":       (*fleet).testsAFailureIsRolledBack,
		"plugin-is-gone":  (*fleet).testsANodeWhoseDriverWasNotTouchedWaitsForNoPlugin,
		"pods-stay":       (*fleet).testsPodsThatStayFailTheUpgradeBeforeTheDriverIsTouched,
		"budget":          (*fleet).testsABudgetHoldsTheUpgrade,
		"cordoned-before": (*fleet).testsANodeThatSomebodyElseCordonedStaysCordoned,
		"three-nodes":     (*fleet).testsThreeNodesAndOneSlot,
		"halt":            (*fleet).testsAFailureHaltsTheFleet,
		"max-unavailable": (*fleet).testsACordonedNodeCountsForMaxUnavailable,
	} {
		t.Run(name, func(t *testing.T) { test(s.fleet(t, name)) })
	}
}

// events returns the Events about the node.
func (m *machine) events() (messages []string) {
	m.Helper()
	type event struct {
		Reason   string `json:"reason"`
		Type     string `json:"type"`
		Message  string `json:"message"`
		Involved struct {
			Name string `json:"name"`
		} `json:"involvedObject"`
	}
	all, err := kube.List[event](m.Context(), m.operator(m.T, "any"), kube.Query{Object: kube.Object{API: "v1", Resource: "events", Namespace: "default"}})
	assert.NilError(m, err)
	for _, e := range all {
		if e.Involved.Name == m.name {
			messages = append(messages, e.Reason+" "+e.Type+" "+e.Message)
		}
	}
	return messages
}

func (f *fleet) testsAnUpgradeOfANode() {
	f.policy.PodDeletion.Force = true
	m := f.node("node1", false)
	f.pod(m.name, "gpu", true)
	f.pod(m.name, "cpu", false)
	m.in = func(method string) {
		if s := m.show(); method == "swap" && (!s.Spec.Unschedulable || s.state() != string(upgrade.Swapping) || slices.Contains(f.pods(), "gpu") || s.Metadata.Labels[deployClient] != "paused-for-driver-upgrade") {
			f.Errorf("the driver is swapped on the node %+v with the pods %v", s, f.pods())
		}
	}
	stop := m.start()
	s := m.reaches(upgrade.Done)
	want := "GPUDriverUpgrade Normal upgrade to driver 2: upgrade-done"
	agenttest.Poll(f, "the Event "+want, func() bool { return slices.Contains(m.events(), want) })
	stop()
	if s.Spec.Unschedulable || s.Metadata.Labels[deployClient] != "true" || s.cause() != "" || s.Metadata.Annotations[upgrade.CordonedAnnotation]+s.Metadata.Annotations[upgrade.PausedAnnotation] != "" || m.loaded != "2" {
		f.Errorf("at the end, the node is %+v with driver %s", s, m.loaded)
	}
	if got := f.pods(); !slices.Equal(got, []string{"cpu"}) {
		f.Errorf("the pods %v are left", got)
	}

	// A restart without a change writes nothing, also if NVIDIA's driver manager has paused labels.
	c := f.operator(f.T, m.name)
	assert.NilError(f, c.Patch(f.Context(), c.Node(), []kube.Operation{{Op: "replace", Path: kube.LabelPath(deployClient), Value: []byte(`"paused-for-driver-upgrade"`)}}, nil))
	m.looked = make(chan struct{}, 100)
	before := m.until("the end of the grant, which its writer withdraws", func(s shown) bool { return s.Metadata.Annotations[upgrade.GrantAnnotation] == "" })
	stop = m.start()
	<-m.looked
	<-m.looked // the first was at the start, and this one after the watch saw the Node
	stop()
	if after := m.show(); after.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
		f.Errorf("a restart without a change wrote the Node: %+v", after)
	}
	if j, err := upgrade.ReadJournal(m.journal); err != nil || j.State != upgrade.Done {
		f.Errorf("a restart without a change changes the state to %v: %v", j.State, err)
	}
}

func (f *fleet) testsAFailureIsRolledBack() {
	broken := cause.Cause{Code: "ModuleRejected", Subject: "nvidia", Text: "unknown symbol", Fix: "rebuild it"}
	for name, tc := range map[string]struct {
		node   string
		change func(*machine)
		want   string
		loaded string
	}{
		"of the swap":          {"swap", func(m *machine) { m.swap = broken }, "ModuleRejected: nvidia: unknown symbol: rebuild it", "1"},
		"of the validation":    {"validation", func(m *machine) { m.validate = errors.New("NVML does not answer") }, "UpgradeFailed: upgrade to driver 2: NVML does not answer", "1"},
		"of the way back, too": {"way-back", func(m *machine) { m.swap, m.rollBack = broken, errors.New("gone") }, "ModuleRejected: nvidia: unknown symbol; the rollback to the previous driver failed too: driver 1: gone: rebuild it", ""},
	} {
		f.Run(name, func(t *testing.T) {
			m := f.node(tc.node, false)
			defer m.forget()
			tc.change(m)
			stop := m.start()
			m.reaches(upgrade.Failed)
			// A cause that changes while the state does not is published a second later.
			s := m.until("the cause is "+tc.want, func(s shown) bool { return s.cause() == tc.want })
			stop()
			if s.state() != string(upgrade.Failed) || s.Spec.Unschedulable || s.Metadata.Labels[deployClient] != "true" || m.loaded != tc.loaded {
				f.Errorf("the node is %+v with driver %q, want driver %q", s, m.loaded, tc.loaded)
			}
		})
	}
}

func (f *fleet) testsPodsThatStayFailTheUpgradeBeforeTheDriverIsTouched() {
	m := f.node("node1", false)
	f.pod(m.name, "bare", true)
	m.in = func(method string) { f.Errorf("%s, although a pod holds a GPU", method) }
	stop := m.start()
	s := m.reaches(upgrade.Failed)
	stop()
	if s.Spec.Unschedulable || !strings.Contains(s.cause(), f.namespace+"/bare (it has no controller") {
		f.Errorf("the node is %+v", s)
	}
}

func (f *fleet) testsANodeWhoseDriverWasNotTouchedWaitsForNoPlugin() {
	asked := make(chan struct{}, 10)
	offered := func(context.Context) error {
		asked <- struct{}{}
		return nil
	}
	for name, yields := range map[string]func(m *machine){
		"its pods stay": func(m *machine) {
			f.pod(m.name, "bare", true)
			stop := m.start()
			m.reaches(upgrade.Failed)
			stop()
		},
		"it is skipped": func(m *machine) {
			f.heldPod(m.name, "budgeted")
			f.policy.PodDeletion.Force = true
			defer func() { f.policy.PodDeletion.Force = false }()
			stop := m.start()
			m.until("is cordoned", func(s shown) bool { return s.Spec.Unschedulable })
			skip := []kube.Operation{{Op: "add", Path: "/metadata/labels/nvidia.com~1gpu-driver-upgrade.skip", Value: []byte(`"true"`)}}
			c := f.operator(f.T, m.name)
			if err := c.Patch(f.Context(), c.Node(), skip, nil); err != nil {
				f.Error(err)
			}
			if s := m.reaches(upgrade.Idle); s.Spec.Unschedulable {
				f.Errorf("the node is %+v", s)
			}
			stop()
		},
	} {
		f.Run(name, func(*testing.T) {
			m := f.node(strings.ReplaceAll(name, " ", "-"), false)
			defer m.forget()
			m.offered = offered
			yields(m)
			if len(asked) > 0 {
				f.Error("the node waits for the device plugin, and its driver is as before")
			}
		})
	}

	m := f.node("upgraded", false)
	m.offered = offered
	stop := m.start()
	<-asked
	stop()
}

func (f *fleet) testsABudgetHoldsTheUpgrade() {
	f.policy.PodDeletion.Force = true
	m := f.node("node1", false)
	f.heldPod(m.name, "held")
	stop := m.start()
	defer stop()
	m.until("the cause names the budget", func(s shown) bool {
		return s.state() == string(upgrade.DeletingPod) && strings.Contains(s.cause(), f.namespace+"/held (PodDisruptionBudget keep: The disruption budget keep needs 1 healthy pods and has 1 currently")
	})
	// The label that excludes the node ends the wait.
	skip := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": m.name, "labels": map[string]any{upgrade.SkipLabel: "true"}}}
	assert.NilError(f, f.operator(f.T, m.name).Apply(f.Context(), f.operator(f.T, m.name).Node(), skip, nil))
	s := m.until("the node left the upgrade", func(s shown) bool { return !s.Spec.Unschedulable && s.state() == "" })
	if s.cause() != "" || m.loaded != "1" || !slices.Contains(f.pods(), "held") {
		f.Errorf("the node is %+v with driver %s and the pods %v", s, m.loaded, f.pods())
	}
}

func (f *fleet) testsANodeThatSomebodyElseCordonedStaysCordoned() {
	m := f.node("node1", true)
	m.in = func(string) {
		if m.show().Metadata.Annotations[upgrade.InitialAnnotation] != "true" {
			f.Error("the Node does not say that it was cordoned before")
		}
	}
	stop := m.start()
	s := m.reaches(upgrade.Done)
	stop()
	if !s.Spec.Unschedulable || s.Metadata.Annotations[upgrade.InitialAnnotation] != "" {
		f.Errorf("the node is %+v", s)
	}
}

func (f *fleet) testsThreeNodesAndOneSlot() {
	f.policy.MaxUnavailable, f.policy.MaxFailures = "100%", 1
	nodes := []*machine{f.node("node1", false), f.node("node2", false), f.node("node3", false)}
	for _, m := range nodes {
		defer m.start()()
	}
	for _, m := range nodes {
		if s := m.reaches(upgrade.Done); s.Spec.Unschedulable {
			f.Errorf("%s is %+v", m.name, s)
		}
	}
	if f.most != 1 {
		f.Errorf("%d drivers were swapped at once, with one slot", f.most)
	}
}

func (f *fleet) testsAFailureHaltsTheFleet() {
	nodes := []*machine{f.node("node1", false), f.node("node2", false), f.node("node3", false)}
	var once sync.Once
	var failed *machine
	for _, m := range nodes {
		m.in = func(method string) {
			once.Do(func() { failed = m })
			if method == "swap" && m != failed {
				f.Errorf("%s begins after %s failed", m.name, failed.name)
			}
		}
		m.swap = errors.New("broken")
		defer m.start()()
	}
	halted := 0
	for _, m := range nodes {
		s := m.until(m.name+" stands still", func(s shown) bool {
			return s.state() == string(upgrade.Failed) && !s.Spec.Unschedulable || strings.Contains(s.cause(), "maxFailures is 1")
		})
		if s.state() == string(upgrade.Required) && !s.Spec.Unschedulable && m.loaded == "1" {
			halted++
		}
	}
	if halted != 2 {
		f.Errorf("%d nodes are halted, want 2", halted)
	}
}

func (f *fleet) testsACordonedNodeCountsForMaxUnavailable() {
	f.policy.MaxUnavailable = "1"
	m, other := f.node("node1", false), f.node("node2", true)
	stop := m.start()
	defer stop()
	s := m.until("it waits for the other node", func(s shown) bool { return strings.Contains(s.cause(), other.name) })
	if want := "WaitingForUpgradeSlot: upgrade to driver 2: waits, because maxUnavailable is 1, and these nodes are in an upgrade, cordoned or not ready: " + other.name; s.cause() != want {
		f.Errorf("the cause is %q, want %q", s.cause(), want)
	}
	uncordon := []kube.Operation{{Op: "remove", Path: "/spec/unschedulable"}}
	assert.NilError(f, f.operator(f.T, "any").Patch(f.Context(), f.operator(f.T, other.name).Node(), uncordon, nil))
	m.reaches(upgrade.Done)
}
