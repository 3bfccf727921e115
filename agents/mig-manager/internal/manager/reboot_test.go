package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/kube/kubetest"
	"outrigger.dev/pkg/pace"
)

// rebooting is a node whose GPUs need a reboot for the config all-balanced.
func rebooting(t *testing.T) *node {
	n := nodeOn(t, kubetest.New(t, "n1", map[string]string{manager.ConfigLabel: "all-balanced"}))
	n.fails = errors.Join(errors.New("GPU 0"), manager.ErrNeedsReboot)
	return n
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
			n.start()
			n.until("looked at", func(shown) bool { return n.count("recover") == 2 })
			pace.Pause(t.Context(), 10*n.cfg.Retry.Most)
			if after := n.until("the same", shows); after.cause() != before.cause() {
				t.Errorf("the cause %q became %q", before.cause(), after.cause())
			}
			if n.count("apply") != 1 || n.count("reboot") != tc.told {
				t.Errorf("done: %v, want one attempt", n.seen(&n.log))
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

// TestAnotherConfigEndsTheWait also while the host does not reboot.
func TestAnotherConfigEndsTheWait(t *testing.T) {
	n := rebooting(t)
	n.cfg.Options.Reboot = true
	n.start()
	n.until("rebooting", func(s shown) bool { return s.state() == manager.Rebooting && n.count("reboot") == 1 })
	n.ask("all-disabled")
	n.succeeds()
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
	for i := range 3 {
		stop := n.start()
		n.until("failed", func(s shown) bool {
			return s.state() == manager.Failed && strings.Contains(s.cause(), "did not take effect after a reboot") && n.count("recover") == i+2
		})
		pace.Pause(t.Context(), 50*time.Millisecond)
		stop()
	}
	if n.count("reboot") != 1 || n.count("apply") != 2 {
		t.Errorf("done: %v, want one attempt in each boot, and one reboot", n.seen(&n.log))
	}
}
