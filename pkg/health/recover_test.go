package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

func TestWhatMakesAGPUHealthyAgain(t *testing.T) {
	var (
		none      = map[gpu.UUID]string{}
		knows     = observe(asks(gpu.RecoveryNone))
		wantReset = observe(asks(gpu.RecoveryReset))
	)
	for name, tc := range map[string]struct {
		script script
		want   map[gpu.UUID]string
	}{
		"a fault that is gone from the snapshot is gone": {script{{0, observe(silent(0))}, {1, observe()}}, none},
		"a lost GPU that answers again is healthy":       {script{{0, observe()}, {1, apply(lost("GPU-0"))}, {2, observe()}}, none},
		"a snapshot that began before the GPU was lost proves nothing": {
			script{{0, observe()}, {1, apply(lost("GPU-0"))}, {2, began(0.5)}}, one("GPU-0", "gpu is lost"),
		},
		"a GPU that has come back is healthy": {
			script{{0, observe()}, {1, observe(func(n *gpu.Node) { n.GPUs = n.GPUs[1:] })}, {2, observe()}}, none,
		},
		"an XID that passes is over after the quiet window": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {6, observe()}}, none,
		},
		"and not before": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {5.9, observe()}}, one("GPU-0", breakpoint),
		},
		"and not without a snapshot in which the GPU answers": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {6, observe(silent(0))}}, one("GPU-0", noName+"; "+breakpoint),
		},
		"and not by a snapshot that began before its end": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {7, began(5)}}, one("GPU-0", breakpoint),
		},
		"another XID of the class begins the window anew": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {5, apply(xid("GPU-0", 56))}, {7, observe()}}, one("GPU-0", breakpoint),
		},
		"an XID that takes a reset does not pass on a driver that says nothing": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}, {600, observe()}}, one("GPU-0", uncontained),
		},
		"but it does when the GPU was silent and answers again": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}, {2, observe(silent(0))}, {3, observe()}}, none,
		},
		"or was lost": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 79))}, {1, apply(lost("GPU-0"))}, {3, observe()}}, none,
		},
		"or was away from the node": {
			script{
				{0, observe()},
				{1, apply(xid("GPU-0", 79))},
				{2, observe(func(n *gpu.Node) { n.GPUs = n.GPUs[1:] })},
				{3, observe()},
			},
			none,
		},
		"or the driver was": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 79))}, {2, driverGone}, {3, observe()}}, none,
		},
		"a GPU that was silent before the XID proves nothing": {
			script{{0, observe(silent(0))}, {1, observe()}, {2, apply(xid("GPU-0", 95))}, {3, observe()}}, one("GPU-0", uncontained),
		},
		"an XID while the GPU is silent belongs to that": {
			script{{0, observe(silent(0))}, {1, apply(xid("GPU-0", 79))}, {2, observe()}}, none,
		},
		"an XID that takes a reset is over when the driver asks for it no more": {
			script{{0, knows}, {1, apply(xid("GPU-0", 95))}, {1.1, wantReset}, {2, knows}}, none,
		},
		"and not while it asks": {
			script{{0, knows}, {1, apply(xid("GPU-0", 95))}, {1.1, wantReset}, {600, wantReset}}, one("GPU-0", asksReset+"; "+uncontained),
		},
		"and not while it says nothing": {
			script{{0, knows}, {1, apply(xid("GPU-0", 95))}, {1.1, wantReset}, {600, observe()}}, one("GPU-0", uncontained),
		},
		"a driver that asks for nothing all along is believed after the quiet window": {
			script{{0, knows}, {1, apply(xid("GPU-0", 95))}, {6, knows}}, none,
		},
		"and not before it": {
			script{{0, knows}, {1, apply(xid("GPU-0", 95))}, {5, knows}}, one("GPU-0", uncontained),
		},
		"the change of what the driver asks for is over once that is known": {
			script{{0, knows}, {1, apply(xid("GPU-0", 154))}, {2, knows}}, none,
		},
		"what the driver asks for outlives the quiet window of an XID": {
			script{{0, knows}, {1, apply(xid("GPU-0", 61))}, {7, wantReset}}, one("GPU-0", asksReset+"; "+breakpoint),
		},
		"a driver that asks for the IMEX domain asks nothing of the GPU": {
			script{{0, knows}, {1, apply(xid("GPU-0", 95))}, {1.1, wantReset}, {2, observe(asks(gpu.RecoveryIMEXDomain))}}, none,
		},
		"what the driver asks for is over when it asks no more": {script{{0, wantReset}, {1, knows}}, none},
		"a MIG device that was deleted takes its XID with it": {
			script{
				{0, observe()},
				{1, apply(migXID("GPU-1", 1, 1, 95))},
				{2, observe(func(n *gpu.Node) { n.GPUs[1].MIG.Devices = n.GPUs[1].MIG.Devices[:1] })},
				{3, observe()},
			},
			none,
		},
		"an XID of a MIG device is over with that of its GPU": {
			script{{0, observe()}, {1, apply(migXID("GPU-1", 1, 1, 95))}, {2, observe(silent(1))}, {3, observe()}}, none,
		},
		"when a driver answers that hung the rest still holds": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}, {2, hangs("no answer")}, {3, hangs("")}}, one("GPU-0", uncontained),
		},
		"a reload forgets events and keeps what the snapshot shows": {
			script{
				{0, observe(silent(1), asks(gpu.RecoveryReset))},
				{1, apply(xid("GPU-0", 79))},
				{1, apply(lost("GPU-0"))},
				{2, forget},
			},
			map[gpu.UUID]string{"GPU-0": asksReset, "GPU-1": noName, "MIG-a": noName, "MIG-b": noName, "MIG-c": noName},
		},
	} {
		check(t, name, tc.script, tc.want)
	}
}

// Where it does not count what the driver asks for, it still says what an XID
// takes.
func TestWhatTheDriverAsksForCanBeIgnored(t *testing.T) {
	rules, _ := health.ParseRules("154", "")
	for name, tc := range map[string]struct {
		script script
		want   map[gpu.UUID]string
	}{
		"by itself": {script{{0, observe(asks(gpu.RecoveryReset))}}, map[gpu.UUID]string{}},
		"and an XID that passes is over after the quiet window": {
			script{{0, observe(asks(gpu.RecoveryReset))}, {1, apply(xid("GPU-0", 61))}, {7, observe(asks(gpu.RecoveryReset))}},
			map[gpu.UUID]string{},
		},
		"and one that takes a reset is not": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}, {7, observe(asks(gpu.RecoveryReset))}}, one("GPU-0", uncontained),
		},
		"until it asks no more": {
			script{
				{0, observe()},
				{1, apply(xid("GPU-0", 95))},
				{2, observe(asks(gpu.RecoveryReset))},
				{3, observe(asks(gpu.RecoveryNone))},
			},
			map[gpu.UUID]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, reasons(run(rules, tc.script).View(), node())); diff != "" {
				t.Errorf("unfit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesThatChange(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	off, _ := health.ParseRules("79,154", "")
	m := run(rules, script{
		{0, observe(asks(gpu.RecoveryReset))},
		{1, apply(xid("GPU-0", 79))},
		{1, apply(xid("GPU-1", 95))},
	})
	m.SetRules(off)
	got := reasons(m.View(), node())
	if _, unfit := got["GPU-0"]; unfit {
		t.Errorf("GPU-0 is unfit although neither xid 79 nor what the driver asks for counts: %s", got["GPU-0"])
	}
	if got["GPU-1"] != uncontained {
		t.Errorf("GPU-1 is %q, want %q", got["GPU-1"], uncontained)
	}
}

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		script script
		want   time.Time // zero for never
	}{
		"nothing is expected of a healthy node": {script: script{{0, observe()}}},
		"the end of the quiet window of an XID": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}}, minute(6),
		},
		"the first of several": {
			script{{0, observe()}, {1, apply(xid("GPU-1", 61))}, {2, apply(xid("GPU-0", 61))}}, minute(6),
		},
		"a snapshot before it changes nothing": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {3, observe()}}, minute(6),
		},
		"nothing on a driver that does not say when a reset has happened": {
			script: script{{0, observe()}, {1, apply(xid("GPU-0", 95))}, {6, observe()}},
		},
		"again and again while the driver asks for something": {
			script{{0, observe(asks(gpu.RecoveryReset))}, {5, observe(asks(gpu.RecoveryReset))}}, minute(10),
		},
		"again and again while a GPU does not answer": {
			script{{0, observe(silent(0))}}, minute(5),
		},
		"again and again while a MIG device does not answer": {
			script{{0, observe(func(n *gpu.Node) { n.GPUs[1].MIG.Devices[0].Fault = &gpu.Fault{Op: "x", Reason: "y"} })}}, minute(5),
		},
		"nothing of a GPU that is gone": {
			script: script{{0, observe()}, {1, observe(func(n *gpu.Node) { n.GPUs = n.GPUs[1:] })}},
		},
		"nothing while there is no driver": {script: script{{0, observe(silent(0))}, {1, driverGone}}},
		"nothing while the driver hangs":   {script: script{{0, observe(silent(0))}, {1, hangs("no answer")}}},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := health.ParseRules("", "")
			got, ok := run(rules, tc.script).Next()
			if ok == tc.want.IsZero() || !got.Equal(tc.want) {
				t.Errorf("Next() = %v, %v, want %v", got, ok, tc.want)
			}
		})
	}
}

func TestNeedsRefresh(t *testing.T) {
	for name, tc := range map[string]struct {
		event gpu.Event
		want  bool
	}{
		"a lost GPU":                      {lost("GPU-0"), true},
		"MIG devices that changed":        {gpu.Event{Kind: gpu.EventMIGChanged}, true},
		"another recovery action":         {xid("GPU-0", 154), true},
		"an XID that says all by itself":  {xid("GPU-0", 79), false},
		"an XID of an application":        {xid("GPU-0", 13), false},
		"a GPU that has come or has gone": {gpu.Event{Kind: gpu.EventTopologyChanged}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := health.NeedsRefresh(tc.event); got != tc.want {
				t.Errorf("NeedsRefresh() = %v, want %v", got, tc.want)
			}
		})
	}
}
