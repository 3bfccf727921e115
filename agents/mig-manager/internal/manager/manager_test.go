package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
)

// policies is the file with the objects that the chart renders, and account the one that its
// admission policies are for.
const (
	policies = "../../../../charts/testdata/mig-manager/evict.golden"
	account  = "gpu-operator-resources/outrigger-mig-manager"
)

// TestManager runs managers of nodes against a real API server, with the admission policies of the
// chart.
func TestManager(t *testing.T) {
	rc := apitest.Start(t)
	restricted := apitest.Restrict(t, rc, policies, account)
	for name, test := range map[string]func(*node){
		"label":   (*node).testsALabelIsFollowed,
		"unknown": (*node).testsAnUnknownConfigFails,
		"wait":    (*node).testsAPodHoldsItBack,
		"evict":   (*node).testsAPodIsEvicted,
		"retry":   (*node).testsAFailureIsRetried,
		"crash":   (*node).testsACordonOfAKilledAgentEnds,
		"units":   (*node).testsUnitsOfTheHostRunAgain,
		"reboot":  (*node).testsTheHostIsRebootedOnce,
		"moved":   (*node).testsAPodOfAnotherNodeIsNotEvicted,
		"ended":   (*node).testsTheFactOutlastsTheAgent,
		"removed": (*node).testsTheCordonEndsWithTheAgent,
		"way":     (*node).testsTheCordonOutlivesTheAgentOnTheWayToAReboot,
		"refused": (*node).testsARebootThatIsRefusedIsTriedAgain,
		"inunit":  (*node).testsAUnitWithAProcessIsStopped,
		"default": (*node).testsTheDefaultNeedsNoLabel,
		"left":    (*node).testsNothingIsLeft,
		"others":  (*node).testsACordonOfOthersStays,
		"paused":  (*node).testsDaemonSetsArePaused,
		"tenant":  (*node).testsPodsAreEvictedBeforeAPause,
		"static":  (*node).testsAStaticPodIsNotEvicted,
		"forged":  (*node).testsForgedOwnersAreDenied,
		"many":    (*node).testsOwnersThatArePutTogether,
	} {
		t.Run(name, func(t *testing.T) {
			test(newNode(t, name, func(agent string) *kube.Client {
				if agent == manager.Name {
					return apitest.Client(t, restricted(t, name), name, agent)
				}
				return apitest.Client(t, rc, name, agent)
			}))
		})
	}
}

func (n *node) testsALabelIsFollowed() {
	n.ask("all-disabled")
	stop := n.start()
	before := n.succeeds()
	n.until("reported", func(shown) bool { return n.cfg.Contract.Read(contract.MIGReady).State == contract.Valid })
	if n.applied != 0 {
		n.Error("a layout that is in effect was applied")
	}
	n.ask("all-balanced")
	n.until("all-balanced", func(shown) bool {
		return n.cfg.Contract.Read(contract.MIGReady).Values[manager.KeyConfig] == "all-balanced"
	})
	after := n.succeeds()
	if before.Metadata.ResourceVersion == after.Metadata.ResourceVersion {
		n.Error("the label did not change")
	}
	if got := n.sent(1); !slices.Equal(got, []string{"MIGConfigApplied: MIG config all-balanced is in effect"}) {
		n.Errorf("events %q", got)
	}
	// A manager that starts on a node that is as desired writes nothing.
	stop()
	n.start()
	n.until("looked at", func(shown) bool { return len(n.seen(&n.log)) >= 3 }) // recover, apply, recover
	if s := n.succeeds(); s.Metadata.ResourceVersion != after.Metadata.ResourceVersion {
		n.Error("a manager that starts again wrote to the Node")
	}
}

func (n *node) testsAnUnknownConfigFails() {
	n.ask("nonsense")
	n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed && strings.Contains(s.cause(), "all-balanced") })
	n.ask("all-balanced")
	n.succeeds()
	if got := n.sent(2); len(got) != 2 || !strings.HasPrefix(got[0], "MIGConfigFailed: MIG config nonsense: ") {
		n.Errorf("events %q", got)
	}
}

func (n *node) testsAPodHoldsItBack() {
	n.set(func() { n.users = []mig.Holder{holds("default", "train-0")} })
	n.ask("all-balanced")
	n.start()
	n.until("pending", func(s shown) bool {
		return s.state() == manager.Pending && strings.Contains(s.cause(), "default/train-0")
	})
	if n.applied != 0 {
		n.Error("it was applied while a pod used what goes")
	}
	n.set(func() { n.users = nil })
	n.succeeds()
	if got := n.sent(2); len(got) != 2 || !strings.HasPrefix(got[0], "MIGConfigWaiting: ") {
		n.Errorf("events %q", got)
	}
}

func (n *node) testsAPodIsEvicted() {
	n.cfg.Options.Policy = manager.EvictPods
	n.pod("of-evict", "train-0")
	n.pod("of-evict", "train-1")
	n.ask("all-balanced")
	n.start()
	n.until("cordoned and train-1 evicted", func(s shown) bool {
		var p struct{}
		err := n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: "of-evict", Name: "train-1"}, &p)
		return s.Spec.Unschedulable && s.Metadata.Annotations[manager.CordonedAnnotation] == "all-balanced" && err != nil
	})
	n.set(func() { n.users = nil })
	n.succeeds()
	var other struct{}
	assert.NilError(n, n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: "of-evict", Name: "train-0"}, &other), "a pod that holds nothing of it was evicted")
}

// testsAPodOfAnotherNodeIsNotEvicted: the kubelet of this node still lists its predecessor.
func (n *node) testsAPodOfAnotherNodeIsNotEvicted() {
	n.cfg.Options.Policy = manager.EvictPods
	n.podOn("another", "of-moved", "train-0")
	n.ask("all-balanced")
	n.start()
	n.until("evicting", func(s shown) bool { return strings.Contains(s.cause(), "evicting") })
	pace.Pause(n.Context(), 10*n.cfg.Options.Poll)
	var other struct{}
	assert.NilError(n, n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: "of-moved", Name: "train-0"}, &other), "a pod of another node was evicted")
}

func (n *node) testsAFailureIsRetried() {
	n.fails = errors.New("create GPU instance 3g.40gb at 4:4: it broke")
	n.ask("all-balanced")
	n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed && strings.Contains(s.cause(), "it broke") })
	n.until("tried again", func(s shown) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.applied > 3 && s.state() == manager.Failed
	})
	n.set(func() { n.fails = nil })
	n.succeeds()
	if got := n.sent(2); len(got) != 2 {
		n.Errorf("events %q, want one for the failure and one for the success", got)
	}
}

// hanging is a node whose GPUs are being read when the agent ends.
type hanging struct {
	*node
	hangs atomic.Bool
}

func (h *hanging) Observe(ctx context.Context) (*apply.Observation, error) {
	if !h.hangs.Load() {
		return h.node.Observe(ctx)
	}
	h.did("hangs")
	<-ctx.Done()
	return nil, ctx.Err()
}

func (n *node) testsTheFactOutlastsTheAgent() {
	h := &hanging{node: n}
	n.cfg.GPUs = h
	n.ask("all-disabled")
	stop := n.start()
	n.succeeds()
	h.hangs.Store(true)
	n.ask("all-balanced")
	n.until("reading", func(shown) bool { return slices.Contains(n.seen(&n.log), "hangs") })
	stop()
	if f := n.cfg.Contract.Read(contract.MIGReady); f.State != contract.Valid {
		n.Errorf("the fact mig-ready is %s: %s", f.State, f.Reason)
	}
}

func (n *node) testsTheCordonEndsWithTheAgent() {
	n.cfg.Options.Cordon = true
	n.users = []mig.Holder{holds("default", "train-0")}
	n.ask("all-balanced")
	stop := n.start()
	n.until("cordoned", func(s shown) bool { return s.Spec.Unschedulable })
	stop()
	n.until("schedulable", func(s shown) bool {
		return !s.Spec.Unschedulable && s.Metadata.Annotations[manager.CordonedAnnotation] == ""
	})
}

// testsACordonOfAKilledAgentEnds: the config was taken back meanwhile.
func (n *node) testsACordonOfAKilledAgentEnds() {
	n.cfg.Options.Policy = manager.EvictPods
	assert.NilError(n, n.admin.Patch(n.Context(), n.admin.Node(), []kube.Operation{
		{Op: "add", Path: "/spec/unschedulable", Value: []byte("true")},
		{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"` + manager.CordonedAnnotation + `": "all-balanced"}`)},
	}, nil))
	n.ask("all-disabled")
	n.start()
	n.succeeds()
}

func (n *node) testsUnitsOfTheHostRunAgain() {
	n.cfg.Units, n.stopped = n, []string{"left.service"}
	n.fails = errors.New("it broke")
	n.ask("all-balanced")
	n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed })
	n.set(func() { n.fails = nil })
	n.succeeds()
	got := strings.Join(n.seen(&n.log), " ")
	if !strings.HasPrefix(got, "start recover stop apply start") || !strings.HasSuffix(got, "stop apply start") {
		n.Errorf("done: %s", got)
	}
}

func (n *node) testsTheHostIsRebootedOnce() {
	n.cfg.Options.Reboot = true
	n.fails = needsReboot()
	n.ask("all-balanced")
	stop := n.start()
	n.until("rebooting", func(s shown) bool { return s.state() == manager.Rebooting && slices.Contains(n.seen(&n.log), "reboot") })
	stop()
	n.boot("2")
	n.cfg.Options.RebootPause = 20 * time.Millisecond
	n.start()
	n.until("failed", func(s shown) bool {
		return s.state() == manager.Failed && strings.Contains(s.cause(), "after a reboot")
	})
	n.set(func() { n.fails = nil })
	n.succeeds()
	if got := strings.Count(strings.Join(n.seen(&n.log), " "), "reboot"); got != 1 {
		n.Errorf("%d reboots", got)
	}
}

func (n *node) testsARebootThatIsRefusedIsTriedAgain() {
	n.cfg.Options.Reboot = true
	n.cfg.Retry = pace.Backoff{First: time.Minute, Most: time.Minute}
	n.cfg.Reboot = func(context.Context) error { n.did("reboot"); return errors.New("no D-Bus") }
	n.fails = needsReboot()
	n.ask("all-balanced")
	n.start()
	n.until("failed", func(s shown) bool {
		return s.state() == manager.Failed && strings.HasSuffix(s.cause(), "no D-Bus")
	})
	pace.Pause(n.Context(), 100*time.Millisecond)
	if got := strings.Count(strings.Join(n.seen(&n.log), " "), "reboot"); got != 1 {
		n.Errorf("%d reboots, want one before the pause", got)
	}
}

func (n *node) testsAUnitWithAProcessIsStopped() {
	n.cfg.Units, n.cfg.OfHost = n, func(unit string) bool { return unit == "nvsm.service" }
	n.users = []mig.Holder{ofUnit()}
	n.ask("all-balanced")
	n.start()
	n.succeeds()
	if got := strings.Join(n.seen(&n.log), " "); !strings.Contains(got, "stop apply start") {
		n.Errorf("done: %s", got)
	}
}

func (n *node) testsTheDefaultNeedsNoLabel() {
	n.cfg.Default = "all-balanced"
	n.start()
	if s := n.succeeds(); s.Metadata.Labels[manager.ConfigLabel] != "" {
		n.Error("the manager wrote the label of the config")
	}
}
