package manager_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
)

// rebooting is a node whose GPUs need a reboot for the config all-balanced.
func rebooting(t *testing.T) *node {
	n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "all-balanced"}))
	n.fails = needsReboot()
	selects := n.cfg.Select
	n.cfg.Select = func(name string, gpus []mig.GPU) (map[gpu.UUID]mig.Desired, error) {
		n.did("look")
		return selects(name, gpus)
	}
	n.cfg.GPUs = pending{n}
	return n
}

// pending is a node whose journal keeps the change after an attempt. A reset is tried again to end it, in
// vain.
type pending struct{ *node }

func (p pending) Recover(ctx context.Context, req apply.Request) (apply.Result, error) {
	if p.count("apply") == 0 {
		return p.node.Recover(ctx, req)
	}
	p.did("recover")
	return p.result(), p.fails
}

// restart is start, and waits until the manager has looked at the node.
func (n *node) restart() (stop func()) {
	n.Helper()
	before := n.count("look")
	stop = n.start()
	n.until("looked at", func(shown) bool { return n.count("look") > before })
	return stop
}

// count returns how often something was done.
func (n *node) count(what string) int {
	return len(slices.DeleteFunc(n.seen(&n.log), func(d string) bool { return d != what }))
}

// TestARestartWaitsForTheReboot: the agent is updated while the host is about to reboot, or
// while somebody has to reboot it. The GPUs are left alone.
func TestARestartWaitsForTheReboot(t *testing.T) {
	for name, tc := range map[string]struct {
		reboots bool
		state   manager.State
		told    int
	}{
		"by the agent": {reboots: true, state: manager.Rebooting, told: 1},
		"by hand":      {state: manager.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			n := rebooting(t)
			n.cfg.Options.Reboot = tc.reboots
			stop := n.start()
			shows := func(s shown) bool { return s.state() == tc.state && strings.Contains(s.cause(), "GPU 0") }
			before := n.until("waiting for a reboot", func(s shown) bool { return shows(s) && n.count("reboot") == tc.told })
			stop()
			n.restart()
			pace.Pause(t.Context(), 10*n.cfg.Retry.Most)
			if after := n.until("the same", shows); after.cause() != before.cause() {
				t.Errorf("the cause %q became %q", before.cause(), after.cause())
			}
			if n.count("apply") != 1 || n.count("recover") != 1 || n.count("reboot") != tc.told {
				t.Errorf("done: %v, want one attempt, and nothing by the second agent", n.seen(&n.log))
			}
		})
	}
}

// TestAnAgentThatMayRebootDoesSo: its variable WITH_REBOOT was set after the attempt. The GPUs are not
// touched again.
func TestAnAgentThatMayRebootDoesSo(t *testing.T) {
	n := rebooting(t)
	stop := n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed && strings.Contains(s.cause(), "WITH_REBOOT") })
	stop()
	n.cfg.Options.Reboot = true
	n.start()
	n.until("rebooting", func(s shown) bool { return s.state() == manager.Rebooting && n.count("reboot") == 1 })
	if n.count("apply") != 1 {
		t.Errorf("done: %v, want one attempt", n.seen(&n.log))
	}
}

// late are units that take so long to stop that a pod comes meanwhile.
type late struct{ *node }

func (l late) Stop(ctx context.Context) error {
	if l.count("stop") == 0 {
		l.set(func() { l.users = []mig.Holder{holds("default", "train-0")} })
	}
	return l.node.Stop(ctx)
}

// TestAPodThatComesWhileUnitsStopIsSpared: it has no process yet, which the driver could name.
func TestAPodThatComesWhileUnitsStopIsSpared(t *testing.T) {
	n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "all-balanced"}))
	n.cfg.Units = late{n}
	n.start()
	n.until("waiting", func(s shown) bool {
		return s.state() == manager.Pending && strings.Contains(s.cause(), "train-0") && n.count("start") == 1
	})
	if n.count("apply") != 0 {
		t.Errorf("done: %v, want no change", n.seen(&n.log))
	}
	n.set(func() { n.users = nil })
	n.succeeds()
}

// TestAnotherConfigEndsTheWait also while the host does not reboot. What was begun is ended at once.
func TestAnotherConfigEndsTheWait(t *testing.T) {
	n := rebooting(t)
	n.cfg.Options.Reboot = true
	stop := n.start()
	n.until("rebooting", func(s shown) bool { return s.state() == manager.Rebooting && n.count("reboot") == 1 })
	stop()
	n.restart()
	n.ask("all-disabled")
	n.succeeds()
	if n.count("recover") != 2 {
		t.Errorf("done: %v, want a recovery for the other config", n.seen(&n.log))
	}
}

// TestARebootInVainIsNotRepeated, whoever starts the agent how often.
func TestARebootInVainIsNotRepeated(t *testing.T) {
	n := rebooting(t)
	n.cfg.Options.Reboot = true
	n.cfg.Reboot = func(context.Context) error { n.did("reboot"); return nil }
	stop := n.start()
	n.until("rebooting", func(shown) bool { return n.count("reboot") == 1 })
	stop()
	n.boot("2")
	for range 3 {
		stop := n.restart()
		n.until("failed", func(s shown) bool {
			return s.state() == manager.Failed && strings.Contains(s.cause(), "did not take effect after a reboot") && n.count("apply") == 2
		})
		pace.Pause(t.Context(), 50*time.Millisecond)
		stop()
	}
	if n.count("reboot") != 1 || n.count("apply") != 2 || n.count("recover") != 2 {
		t.Errorf("done: %v, want one attempt and one recovery in each boot, and one reboot", n.seen(&n.log))
	}
}

// testsTheCordonOutlivesTheAgentOnTheWayToAReboot: the host ends the agent, and pods that come then would
// be in the way after the reboot.
func (n *node) testsTheCordonOutlivesTheAgentOnTheWayToAReboot() {
	n.fails = needsReboot()
	n.cfg.Options.Reboot, n.cfg.Options.Cordon = true, true
	n.users = []mig.Holder{holds("default", "train-0")}
	n.ask("all-balanced")
	stop := n.start()
	n.until("cordoned", func(s shown) bool { return s.Spec.Unschedulable })
	n.set(func() { n.users = nil })
	n.until("told to reboot", func(s shown) bool { return s.state() == manager.Rebooting && n.count("reboot") == 1 })
	stop()
	if s := n.until("read", func(shown) bool { return true }); !s.Spec.Unschedulable {
		n.Error("the node is schedulable while the host reboots")
	}
	n.boot("2")
	n.fails = nil
	n.start()
	n.succeeds()
}
