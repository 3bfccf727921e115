package health_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// restarted returns a Machine that has the incidents of m, and nothing else.
func restarted(m *health.Machine, rules health.Rules) *health.Machine {
	out := health.New(rules)
	out.Restore(m.Incidents())
	return out
}

// unseen is the end of the reason of a restored incident.
const unseen = "; if it was reset while no agent ran, send SIGHUP to the agents"

// verdicts returns the reasons without the text that only restored incidents have.
func verdicts(m *health.Machine, n *gpu.Node) map[gpu.UUID]string {
	out := reasons(m.View(), n)
	for id, reason := range out {
		out[id] = strings.ReplaceAll(reason, unseen, "")
	}
	return out
}

// A Machine of an agent that starts after an XID has the same verdict as a Machine that has observed the
// XID, after each of the same snapshots: for each XID that counts or warns, on drivers that report a
// recovery action and on drivers that do not.
func TestAgentsAgreeAfterARestart(t *testing.T) {
	rules, _ := health.ParseRules("", "13")
	rules = rules.With(map[health.Class]health.Severity{"xid-31": health.Warning})
	drivers := map[string][]gpu.Recovery{
		"a driver that reports recovery actions": {gpu.RecoveryNone, gpu.RecoveryReset, gpu.RecoveryReboot},
		"an old driver":                          {gpu.RecoveryUnknown},
	}
	for name, recoveries := range drivers {
		t.Run(name, func(t *testing.T) {
			for xid := range uint64(180) {
				for seed := range uint64(8) {
					agree(t, dice{rand.New(rand.NewPCG(seed, xid))}, xid, rules, recoveries)
					if t.Failed() {
						t.Fatalf("xid %d, seed %d", xid, seed)
					}
				}
			}
		})
	}
}

// agree compares an agent that observes an XID and more of them with one that starts afterwards.
func agree(t *testing.T, d dice, xid uint64, rules health.Rules, recoveries []gpu.Recovery) {
	t.Helper()
	m, now := health.New(rules), 0.0
	step := func() *gpu.Node {
		n := node(func(n *gpu.Node) {
			for i := range n.GPUs {
				n.GPUs[i].Recovery = recoveries[d.IntN(len(recoveries))]
			}
		})
		now += d.Float64() * 4
		return n
	}
	m.Observe(step(), minute(now))
	for _, code := range []uint64{xid, d.Uint64N(180), xid}[:1+d.IntN(3)] {
		ev := gpu.GPUEvent(gpu.EventXID, []gpu.UUID{"GPU-0", "GPU-1", ""}[d.IntN(3)])
		if ev.GPU == "GPU-1" && d.IntN(2) == 0 {
			ev.GPUInstance, ev.ComputeInstance = 1, []uint32{gpu.NoInstance, 1}[d.IntN(2)]
		}
		ev.XID = code
		now++
		m.Apply(ev, minute(now))
	}
	if d.IntN(3) == 0 {
		m.DriverGone("no driver")
	}
	later := restarted(m, rules)
	for range 4 {
		n := step()
		m.Observe(n, minute(now))
		later.Observe(n, minute(now))
		if diff := cmp.Diff(verdicts(m, n), verdicts(later, n)); diff != "" {
			t.Errorf("the agents disagree (-ran at the time +started later):\n%s", diff)
		}
	}
}

func TestRestoredIncidents(t *testing.T) {
	const later = 600
	for name, tc := range map[string]struct {
		before script
		// after is the time after the restart.
		after script
		want  map[gpu.UUID]string
	}{
		"a reason names the fix for a reset that no agent saw": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}}, script{{later, observe()}}, one("GPU-0", uncontained+unseen),
		},
		"a driver that reports recovery actions needs no such fix": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}},
			script{{2, observe(asks(gpu.RecoveryNone))}},
			one("GPU-0", uncontained),
		},
		"and proves the end": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}}, script{{later, observe(asks(gpu.RecoveryNone))}}, map[gpu.UUID]string{},
		},
		"an XID that this process observes, too, is its own": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}},
			script{{later, observe()}, {later, apply(xid("GPU-0", 95))}},
			one("GPU-0", uncontained),
		},
		"a GPU that is not there is initialized anew": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}},
			script{{2, observe(func(n *gpu.Node) { n.GPUs = n.GPUs[1:] })}, {3, observe()}},
			map[gpu.UUID]string{},
		},
		"the ID of an instance belongs to another MIG device now": {
			script{{0, observe()}, {1, apply(migXID("GPU-1", 1, 1, 95))}},
			script{{2, observe(func(n *gpu.Node) {
				n.GPUs[1].MIG.Devices = slices.Clone(n.GPUs[1].MIG.Devices)
				for i := range n.GPUs[1].MIG.Devices {
					n.GPUs[1].MIG.Devices[i].UUID += "-new"
				}
			})}},
			map[gpu.UUID]string{},
		},
		"SIGHUP forgets": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}}, script{{2, observe()}, {3, forget}}, map[gpu.UUID]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := health.ParseRules("", "")
			m := restarted(run(rules, tc.before), rules)
			for _, x := range tc.after {
				x.step(m, minute(x.minute))
			}
			if diff := cmp.Diff(tc.want, reasons(m.View(), node())); diff != "" {
				t.Errorf("unfit (-want +got):\n%s", diff)
			}
		})
	}
}

// The rules of the reader decide, also rules that it gets later.
func TestReaderAppliesItsOwnRules(t *testing.T) {
	counts, _ := health.ParseRules("", "94")
	ignores, _ := health.ParseRules("", "")
	m := restarted(run(counts, script{{0, observe()}, {1, apply(xid("GPU-0", 94))}}), ignores)
	m.Observe(node(), minute(2))
	if !m.View().Of("GPU-0").Healthy {
		t.Error("xid 94 counts although the rules ignore it")
	}
	m.SetRules(counts)
	if m.View().Of("GPU-0").Healthy {
		t.Error("xid 94 does not count although the new rules count it")
	}
}

// An XID that is only a warning does not hide a failure with the same end.
func TestWarningHidesNoFailure(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	rules = rules.With(map[health.Class]health.Severity{"xid-61": health.Warning})
	m := run(rules, script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {2, apply(xid("GPU-0", 56))}})
	if m.View().Of("GPU-0").Healthy {
		t.Error("xid 56 does not count after xid 61, which is a warning")
	}
	if at, _ := m.Next(); !at.Equal(minute(2).Add(5 * time.Minute)) {
		t.Errorf("Next() = %v", at)
	}
}
