package health_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/pkg/gpu"
)

func node(faults map[gpu.UUID]*gpu.Fault) *gpu.Node {
	n := &gpu.Node{}
	for i, id := range []gpu.UUID{"GPU-0", "GPU-1"} {
		n.GPUs = append(n.GPUs, gpu.GPU{Index: i, UUID: id, Fault: faults[id]})
	}
	return n
}

func xid(id gpu.UUID, n uint64) gpu.Event {
	return gpu.Event{Kind: gpu.EventXID, GPU: id, XID: n}
}

func TestMachine(t *testing.T) {
	fault := map[gpu.UUID]*gpu.Fault{"GPU-1": {Op: "nvmlDeviceGetName", Reason: "GPU is lost"}}
	lost := gpu.Event{Kind: gpu.EventLost, GPU: "GPU-0"}
	observe := func(f map[gpu.UUID]*gpu.Fault) func(*health.Machine) {
		return func(m *health.Machine) { m.Observe(node(f)) }
	}
	apply := func(ev gpu.Event) func(*health.Machine) {
		return func(m *health.Machine) { m.Apply(ev) }
	}
	hangs := func(reason string) func(*health.Machine) {
		return func(m *health.Machine) { m.Hangs(reason) }
	}
	for name, tc := range map[string]struct {
		steps []func(*health.Machine)
		want  health.View
	}{
		"every GPU of a sound node is healthy": {
			steps: []func(*health.Machine){observe(nil)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{}},
		},
		"a driver that hangs concerns all, whatever else there is": {
			steps: []func(*health.Machine){observe(fault), apply(xid("GPU-0", 79)), hangs("no answer"), observe(fault)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "no answer"}, "GPU-1": {Reason: "no answer"}}},
		},
		"when the driver answers again the rest still holds": {
			steps: []func(*health.Machine){observe(nil), apply(xid("GPU-0", 79)), hangs("no answer"), hangs("")},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "xid 79"}}},
		},
		"an XID concerns its own GPU only": {
			steps: []func(*health.Machine){observe(nil), apply(xid("GPU-0", 79))},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "xid 79"}}},
		},
		"an XID of an application changes nothing": {
			steps: []func(*health.Machine){observe(nil), apply(xid("GPU-0", 31))},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{}},
		},
		"the first XID is told, not those that follow from it": {
			steps: []func(*health.Machine){observe(nil), apply(xid("GPU-0", 79)), apply(xid("GPU-0", 154))},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "xid 79"}}},
		},
		"an XID outlives a snapshot in which the GPU answers": {
			steps: []func(*health.Machine){observe(nil), apply(xid("GPU-0", 79)), observe(nil)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "xid 79"}}},
		},
		"an XID without a GPU concerns all": {
			steps: []func(*health.Machine){observe(nil), apply(xid("", 79))},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "xid 79"}, "GPU-1": {Reason: "xid 79"}}},
		},
		"a fault holds while the snapshots show it": {
			steps: []func(*health.Machine){observe(fault)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-1": {Reason: "nvmlDeviceGetName: GPU is lost"}}},
		},
		"a fault that is gone from the snapshot is gone": {
			steps: []func(*health.Machine){observe(fault), observe(nil)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{}},
		},
		"a lost GPU that answers again is healthy": {
			steps: []func(*health.Machine){observe(nil), apply(lost), observe(nil)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{}},
		},
		"a lost GPU with an XID tells both": {
			steps: []func(*health.Machine){observe(nil), apply(xid("GPU-0", 79)), apply(lost)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "gpu is lost; xid 79"}}},
		},
		"a reset forgets events and keeps faults": {
			steps: []func(*health.Machine){
				observe(fault), apply(xid("GPU-0", 79)), apply(lost),
				func(m *health.Machine) { m.Reset() },
			},
			want: health.View{GPUs: map[gpu.UUID]health.Status{"GPU-1": {Reason: "nvmlDeviceGetName: GPU is lost"}}},
		},
		"a GPU that is gone is not healthy": {
			steps: []func(*health.Machine){
				observe(nil),
				func(m *health.Machine) { m.Observe(&gpu.Node{GPUs: []gpu.GPU{{UUID: "GPU-1"}}}) },
			},
			want: health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "gpu is gone from the node"}}},
		},
		"a GPU that has come back is healthy": {
			steps: []func(*health.Machine){observe(nil), func(m *health.Machine) { m.Observe(&gpu.Node{}) }, observe(nil)},
			want:  health.View{GPUs: map[gpu.UUID]health.Status{}},
		},
		"without a driver no GPU is healthy": {
			steps: []func(*health.Machine){
				observe(nil),
				func(m *health.Machine) { m.DriverGone("no driver") },
			},
			want: health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "no driver"}, "GPU-1": {Reason: "no driver"}}},
		},
		"the driver's return heals what its absence broke": {
			steps: []func(*health.Machine){
				observe(nil), apply(xid("GPU-0", 79)),
				func(m *health.Machine) { m.DriverGone("no driver") },
				observe(nil),
			},
			want: health.View{GPUs: map[gpu.UUID]health.Status{"GPU-0": {Reason: "xid 79"}}},
		},
		"events that say nothing about health change nothing": {
			steps: []func(*health.Machine){
				observe(nil),
				apply(gpu.Event{Kind: gpu.EventMIGChanged, GPU: "GPU-0"}),
				apply(gpu.Event{Kind: gpu.EventTopologyChanged}),
			},
			want: health.View{GPUs: map[gpu.UUID]health.Status{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := health.ParseRules("", "")
			m := health.New(rules)
			for _, step := range tc.steps {
				step(m)
			}
			if diff := cmp.Diff(tc.want, m.View()); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestViewIsAValue(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	m := health.New(rules)
	m.Observe(node(nil))
	before := m.View()
	if !m.Apply(xid("GPU-0", 79)) {
		t.Fatal("xid 79 does not count")
	}
	if !before.Of("GPU-0").Healthy {
		t.Error("a view changed after it was returned")
	}
	if m.View().Of("GPU-0").Healthy {
		t.Error("GPU-0 is healthy after xid 79")
	}
}

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		disable, enable string
		counts, ignored []uint64
		unknown         []string
	}{
		"by default the XIDs of applications are ignored": {
			counts:  []uint64{1, 48, 63, 64, 74, 79, 94, 95, 119},
			ignored: []uint64{13, 31, 43, 45, 68, 109},
		},
		"all turns every XID off":  {disable: "all", ignored: []uint64{13, 48, 79}},
		"xids turns every XID off": {disable: "XIDs", ignored: []uint64{13, 48, 79}},
		"a list is ignored too": {
			disable: " 79, 48 ", counts: []uint64{94}, ignored: []uint64{13, 48, 79},
		},
		"what is enabled counts although applications cause it": {
			enable: "13", counts: []uint64{13, 79}, ignored: []uint64{31},
		},
		"enabled goes before disabled": {
			disable: "79", enable: "79", counts: []uint64{79},
		},
		"one enabled XID counts although all are disabled": {
			disable: "all", enable: "79", counts: []uint64{79}, ignored: []uint64{48, 13},
		},
		"all enabled goes before everything": {
			disable: "79,all", enable: "ALL", counts: []uint64{13, 31, 79},
		},
		"items that are no XID are told and have no effect": {
			disable: "79,x1,-3", enable: "foo", counts: []uint64{48}, ignored: []uint64{79},
			unknown: []string{"x1", "-3", "foo"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, unknown := health.ParseRules(tc.disable, tc.enable)
			for _, x := range tc.counts {
				if !rules.Counts(x) {
					t.Errorf("xid %d is ignored, want it to count", x)
				}
			}
			for _, x := range tc.ignored {
				if rules.Counts(x) {
					t.Errorf("xid %d counts, want it ignored", x)
				}
			}
			if diff := cmp.Diff(tc.unknown, unknown); diff != "" {
				t.Errorf("unknown items (-want +got):\n%s", diff)
			}
		})
	}
}
