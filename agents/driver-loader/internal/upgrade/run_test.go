package upgrade_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// events returns the reasons and messages of the Events about nodes.
func (f *fleet) events() (messages []string) {
	f.Helper()
	type event struct {
		Reason  string `json:"reason"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	all, err := kube.List[event](f.Context(), f.client("any"), kube.Query{Object: kube.Object{API: "v1", Resource: "events", Namespace: "default"}})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range all {
		messages = append(messages, e.Reason+" "+e.Type+" "+e.Message)
	}
	return messages
}

func TestAnUpgradeOfANode(t *testing.T) {
	f := newFleet(t)
	f.policy.PodDeletion.Force = true
	m := f.node("node1", false)
	f.pod("node1", "gpu", true)
	f.pod("node1", "cpu", false)
	m.in = func(method string) {
		if s := m.show(); method == "swap" && (!s.Spec.Unschedulable || s.state() != string(upgrade.Swapping) || slices.Contains(f.pods(), "gpu")) {
			t.Errorf("the driver is swapped on the node %+v with the pods %v", s, f.pods())
		}
	}
	stop := m.start()
	s := m.reaches(upgrade.Done)
	want := "GPUDriverUpgrade Normal upgrade to driver 2: upgrade-done"
	for !slices.Contains(f.events(), want) && pace.Pause(t.Context(), 20*time.Millisecond) {
		continue
	}
	stop()
	if s.Spec.Unschedulable || s.cause() != "" || s.Metadata.Annotations[upgrade.CordonedAnnotation] != "" || m.loaded != "2" {
		t.Errorf("at the end, the node is %+v with driver %s", s, m.loaded)
	}
	if got := f.pods(); !slices.Equal(got, []string{"cpu"}) {
		t.Errorf("the pods %v are left", got)
	}

	// A restart without a change writes nothing.
	m.looked = make(chan struct{}, 100)
	before := m.show()
	stop = m.start()
	<-m.looked
	<-m.looked // the first was at the start, and this one after the watch saw the Node
	stop()
	if after := m.show(); after.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
		t.Errorf("a restart without a change wrote the Node: %+v", after)
	}
}

func TestAFailureIsRolledBack(t *testing.T) {
	broken := cause.Cause{Code: "ModuleRejected", Subject: "nvidia", Text: "unknown symbol", Fix: "rebuild it"}
	for name, tc := range map[string]struct {
		change func(*machine)
		want   string
		loaded string
	}{
		"of the swap":          {func(m *machine) { m.swap = broken }, "nvidia: unknown symbol: rebuild it", "1"},
		"of the validation":    {func(m *machine) { m.validate = errors.New("NVML does not answer") }, "upgrade to driver 2: NVML does not answer", "1"},
		"of the way back, too": {func(m *machine) { m.swap, m.rollBack = broken, errors.New("gone") }, "nvidia: unknown symbol; and the previous driver could not be loaded again: driver 1: gone: rebuild it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFleet(t).node("node1", false)
			tc.change(m)
			stop := m.start()
			s := m.reaches(upgrade.Failed)
			stop()
			if s.cause() != tc.want || s.Spec.Unschedulable || m.loaded != tc.loaded {
				t.Errorf("the node is %+v with driver %q, want the cause %q and driver %q", s, m.loaded, tc.want, tc.loaded)
			}
		})
	}
}

func TestPodsThatStayFailTheUpgradeBeforeTheDriverIsTouched(t *testing.T) {
	f := newFleet(t)
	m := f.node("node1", false)
	f.pod("node1", "bare", true)
	m.in = func(method string) { t.Errorf("%s, although a pod holds a GPU", method) }
	stop := m.start()
	s := m.reaches(upgrade.Failed)
	stop()
	if s.Spec.Unschedulable || !strings.Contains(s.cause(), "default/bare (Pods that declare no controller") {
		t.Errorf("the node is %+v", s)
	}
}

func TestABudgetHoldsTheUpgrade(t *testing.T) {
	f := newFleet(t)
	f.policy.PodDeletion.Force = true
	m := f.node("node1", false)
	f.pod("node1", "held", true)
	f.create("policy/v1", "poddisruptionbudgets", map[string]any{"kind": "PodDisruptionBudget", "metadata": map[string]any{"name": "keep"}, "spec": map[string]any{
		"minAvailable": 1, "selector": map[string]any{"matchLabels": map[string]any{"name": "held"}},
	}})
	ready := []kube.Operation{{Op: "add", Path: "/status", Value: []byte(`{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`)}}
	pod := kube.Object{API: "v1", Resource: "pods", Namespace: "default", Name: "held", Subresource: "status"}
	if err := f.client("any").Patch(t.Context(), pod, ready); err != nil {
		t.Fatal(err)
	}
	stop := m.start()
	defer stop()
	m.until("the cause names the budget", func(s shown) bool {
		return s.state() == string(upgrade.DeletingPod) && strings.Contains(s.cause(), "default/held (PodDisruptionBudget keep: The disruption budget keep needs 1 healthy pods and has 1 currently")
	})
	// The label that excludes the node ends the wait.
	skip := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node1", "labels": map[string]any{upgrade.SkipLabel: "true"}}}
	if err := f.operator("node1").Apply(t.Context(), m.client("node1").Node(), skip); err != nil {
		t.Fatal(err)
	}
	s := m.until("the node left the upgrade", func(s shown) bool { return !s.Spec.Unschedulable && s.state() == "" })
	if s.cause() != "" || m.loaded != "1" || !slices.Contains(f.pods(), "held") {
		t.Errorf("the node is %+v with driver %s and the pods %v", s, m.loaded, f.pods())
	}
}

func TestANodeThatSomebodyElseCordonedStaysCordoned(t *testing.T) {
	m := newFleet(t).node("node1", true)
	m.in = func(string) {
		if m.show().Metadata.Annotations[upgrade.InitialAnnotation] != "true" {
			t.Error("the Node does not say that it was cordoned before")
		}
	}
	stop := m.start()
	s := m.reaches(upgrade.Done)
	stop()
	if !s.Spec.Unschedulable || s.Metadata.Annotations[upgrade.InitialAnnotation] != "" {
		t.Errorf("the node is %+v", s)
	}
}

func TestThreeNodesAndOneSlot(t *testing.T) {
	f := newFleet(t)
	f.policy.MaxUnavailable, f.policy.MaxFailures = "100%", 1
	nodes := []*machine{f.node("node1", false), f.node("node2", false), f.node("node3", false)}
	for _, m := range nodes {
		defer m.start()()
	}
	for _, m := range nodes {
		if s := m.reaches(upgrade.Done); s.Spec.Unschedulable {
			t.Errorf("%s is %+v", m.name, s)
		}
	}
	if f.most != 1 {
		t.Errorf("%d drivers were swapped at once, with one slot", f.most)
	}
}

func TestAFailureHaltsTheFleet(t *testing.T) {
	f := newFleet(t)
	nodes := []*machine{f.node("node1", false), f.node("node2", false), f.node("node3", false)}
	var once sync.Once
	var failed *machine
	for _, m := range nodes {
		m.in = func(method string) {
			once.Do(func() { failed = m })
			if method == "swap" && m != failed {
				t.Errorf("%s begins after %s failed", m.name, failed.name)
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
		t.Errorf("%d nodes are halted, want 2", halted)
	}
}

func TestACordonedNodeCountsForMaxUnavailable(t *testing.T) {
	f := newFleet(t)
	f.policy.MaxUnavailable = "1"
	m, other := f.node("node1", false), f.node("node2", true)
	stop := m.start()
	defer stop()
	s := m.reaches(upgrade.Required)
	if want := "upgrade to driver 2: waits, because maxUnavailable is 1, and these nodes are cordoned: node2"; s.cause() != want {
		t.Errorf("the cause is %q, want %q", s.cause(), want)
	}
	uncordon := []kube.Operation{{Op: "remove", Path: "/spec/unschedulable"}}
	if err := f.operator("x").Patch(t.Context(), other.client("node2").Node(), uncordon); err != nil {
		t.Fatal(err)
	}
	m.reaches(upgrade.Done)
}
