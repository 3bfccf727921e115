package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// step feeds a Machine at a time.
type step func(m *health.Machine, at time.Time)

// script has steps, in minutes from a start.
type script []struct {
	minute float64
	step   step
}

func minute(m float64) time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(m * float64(time.Minute)))
}

// node has GPU-0, which has no MIG devices, and GPU-1, with those of mig.
func node(change ...func(*gpu.Node)) *gpu.Node {
	n := &gpu.Node{GPUs: []gpu.GPU{{Index: 0, UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1", MIG: mig()}}}
	for _, f := range change {
		f(n)
	}
	return n
}

// mig has two compute instances in GPU instance 1, and one in 2.
func mig() *gpu.MIG {
	return &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{
		{UUID: "MIG-a", GPUInstance: 1, ComputeInstance: 0},
		{UUID: "MIG-b", Index: 1, GPUInstance: 1, ComputeInstance: 1},
		{UUID: "MIG-c", Index: 2, GPUInstance: 2, ComputeInstance: 0},
	}}
}

func silent(i int) func(*gpu.Node) {
	return func(n *gpu.Node) { n.GPUs[i].Fault = &gpu.Fault{Op: "nvmlDeviceGetName", Reason: "GPU is lost"} }
}

func asks(r gpu.Recovery) func(*gpu.Node) {
	return func(n *gpu.Node) { n.GPUs[0].Recovery = r }
}

func observe(change ...func(*gpu.Node)) step {
	return func(m *health.Machine, at time.Time) { m.Observe(node(change...), at) }
}

// began is observe of a snapshot that began earlier than it comes.
func began(earlier float64, change ...func(*gpu.Node)) step {
	return func(m *health.Machine, _ time.Time) { m.Observe(node(change...), minute(earlier)) }
}

func apply(ev gpu.Event) step {
	return func(m *health.Machine, at time.Time) { m.Apply(ev, at) }
}

func xid(id gpu.UUID, n uint64) gpu.Event { return migXID(id, gpu.NoInstance, gpu.NoInstance, n) }

func migXID(id gpu.UUID, gi, ci uint32, n uint64) gpu.Event {
	return gpu.Event{Kind: gpu.EventXID, GPU: id, GPUInstance: gi, ComputeInstance: ci, XID: n}
}

func lost(id gpu.UUID) gpu.Event {
	return gpu.Event{Kind: gpu.EventLost, GPU: id, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}
}

func driverGone(m *health.Machine, _ time.Time) { m.DriverGone("no driver") }
func forget(m *health.Machine, _ time.Time)     { m.Reset() }

func hangs(reason string) step {
	return func(m *health.Machine, _ time.Time) { m.Hangs(reason) }
}

// run feeds a new Machine the script.
func run(rules health.Rules, s script) *health.Machine {
	m := health.New(rules)
	for _, x := range s {
		x.step(m, minute(x.minute))
	}
	return m
}

// reasons returns those of the unhealthy GPUs and MIG devices, by UUID.
func reasons(v health.View, n *gpu.Node) map[gpu.UUID]string {
	out := map[gpu.UUID]string{}
	for _, g := range n.GPUs {
		if s := v.Of(g.UUID); !s.Healthy {
			out[g.UUID] = s.Reason
		}
		if g.MIG == nil {
			continue
		}
		for _, d := range g.MIG.Devices {
			if s := v.OfMIG(g.UUID, d); !s.Healthy {
				out[d.UUID] = s.Reason
			}
		}
	}
	return out
}

// check compares the reasons after each script with the expected ones.
func check(t *testing.T, name string, s script, want map[gpu.UUID]string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		rules, _ := health.ParseRules("", "")
		if diff := cmp.Diff(want, reasons(run(rules, s).View(), node())); diff != "" {
			t.Errorf("unfit (-want +got):\n%s", diff)
		}
	})
}

const (
	offTheBus   = "xid 79 (GPU has fallen off the bus): reset the GPU or reboot the node"
	uncontained = "xid 95 (uncontained memory error): reset the GPU"
	breakpoint  = "xid 61 (internal micro-controller breakpoint): healthy again after 5m0s without another"
	noName      = "nvmlDeviceGetName: GPU is lost"
	asksReset   = "the driver asks for a reset of the GPU"
)

func all(reason string) map[gpu.UUID]string {
	return map[gpu.UUID]string{"GPU-0": reason, "GPU-1": reason, "MIG-a": reason, "MIG-b": reason, "MIG-c": reason}
}

func one(id gpu.UUID, reason string) map[gpu.UUID]string { return map[gpu.UUID]string{id: reason} }

func TestWhatMakesUnfit(t *testing.T) {
	none := map[gpu.UUID]string{}
	for name, tc := range map[string]struct {
		script script
		want   map[gpu.UUID]string
	}{
		"every GPU of a working node is healthy": {script{{0, observe()}}, none},
		"an XID of an application changes nothing": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 31))}}, none,
		},
		"an XID concerns its own GPU only": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 79))}}, one("GPU-0", offTheBus),
		},
		"an XID without a GPU concerns all": {
			script{{0, observe()}, {1, apply(xid("", 79))}}, all(offTheBus),
		},
		"an XID before the first snapshot is kept": {
			script{{1, apply(xid("GPU-0", 95))}, {2, began(0.5)}}, one("GPU-0", uncontained),
		},
		"an XID that the catalog does not have is reported by its number": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 999))}},
			one("GPU-0", "xid 999: healthy again after 5m0s without another"),
		},
		"the first XID of a class is reported, not those that follow from it": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 95))}, {1, apply(xid("GPU-0", 48))}}, one("GPU-0", uncontained),
		},
		"the gravest XID is reported, whatever came first": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 61))}, {1, apply(xid("GPU-0", 95))}}, one("GPU-0", uncontained),
		},
		"the change of what the driver asks for is unfit until it is known": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 154))}},
			one("GPU-0", "xid 154 (recovery action changed): reset the GPU"),
		},
		"what the driver asks for counts without any event": {
			script{{0, observe(asks(gpu.RecoveryReset))}}, one("GPU-0", asksReset),
		},
		"a reboot that the driver requests is reported": {
			script{{0, observe(asks(gpu.RecoveryReboot))}}, one("GPU-0", "the driver asks for a reboot of the node"),
		},
		"the end of peer-to-peer traffic is reported": {
			script{{0, observe(asks(gpu.RecoveryDrainP2P))}},
			one("GPU-0", "the driver asks to end the programs that use peer-to-peer traffic"),
		},
		"a reset after a drain is reported": {
			script{{0, observe(asks(gpu.RecoveryDrainAndReset))}},
			one("GPU-0", "the driver asks to let programs end, and then for a reset of the GPU"),
		},
		"an action that is not known is reported as it is": {
			script{{0, observe(asks("bus-reset"))}}, one("GPU-0", "the driver asks for the recovery action bus-reset"),
		},
		"a recovery of the IMEX domain leaves the GPU fit": {
			script{{0, observe(asks(gpu.RecoveryIMEXDomain))}}, none,
		},
		"a GPU that does not answer is unfit": {script{{0, observe(silent(0))}}, one("GPU-0", noName)},
		"a lost GPU with an XID reports both": {
			script{{0, observe()}, {1, apply(xid("GPU-0", 79))}, {1, apply(lost("GPU-0"))}},
			one("GPU-0", "gpu is lost; "+offTheBus),
		},
		"a GPU that is gone is not healthy": {
			script{{0, observe()}, {1, observe(func(n *gpu.Node) { n.GPUs = n.GPUs[1:] })}},
			one("GPU-0", "gpu is gone from the node"),
		},
		"a MIG device that is gone is not healthy": {
			script{{0, observe()}, {1, observe(func(n *gpu.Node) { n.GPUs[1].MIG.Devices = n.GPUs[1].MIG.Devices[:2] })}},
			one("MIG-c", "mig device is gone from its gpu"),
		},
		"without a driver no GPU is healthy": {script{{0, observe()}, {1, driverGone}}, all("no driver")},
		"a driver that hangs concerns all, whatever else there is": {
			script{{0, observe(silent(1))}, {1, apply(xid("GPU-0", 79))}, {2, hangs("no answer")}, {3, observe(silent(1))}},
			all("no answer"),
		},
		"a MIG device that does not answer is unfit, and no other": {
			script{{0, observe(func(n *gpu.Node) {
				n.GPUs[1].MIG.Devices[1].Fault = &gpu.Fault{Op: "nvmlDeviceGetAttributes_v2", Reason: "Unknown Error"}
			})}},
			one("MIG-b", "nvmlDeviceGetAttributes_v2: Unknown Error"),
		},
		"a MIG device of an instance that could not be read leaves nothing behind": {
			script{{0, observe(func(n *gpu.Node) {
				d := &n.GPUs[1].MIG.Devices[1]
				d.GPUInstance, d.ComputeInstance = gpu.NoInstance, gpu.NoInstance
				d.Fault = &gpu.Fault{Op: "nvmlDeviceGetGpuInstanceId", Reason: "Unknown Error"}
			})}, {1, observe()}},
			none,
		},
		"events that say nothing about health change nothing": {
			script{
				{0, observe()},
				{1, apply(gpu.Event{Kind: gpu.EventMIGChanged, GPU: "GPU-0"})},
				{1, apply(gpu.Event{Kind: gpu.EventTopologyChanged})},
			},
			none,
		},
	} {
		check(t, name, tc.script, tc.want)
	}
}

func TestWhatAnXIDOfMIGConcerns(t *testing.T) {
	for name, tc := range map[string]struct {
		event gpu.Event
		want  map[gpu.UUID]string
	}{
		"a whole GPU: all of its MIG devices": {
			xid("GPU-1", 95), map[gpu.UUID]string{"GPU-1": uncontained, "MIG-a": uncontained, "MIG-b": uncontained, "MIG-c": uncontained},
		},
		"a GPU instance: all of its compute instances": {
			migXID("GPU-1", 1, gpu.NoInstance, 95), map[gpu.UUID]string{"MIG-a": uncontained, "MIG-b": uncontained},
		},
		"a compute instance: itself": {
			migXID("GPU-1", 1, 1, 95), one("MIG-b", uncontained),
		},
		"an instance of a GPU without any: the GPU": {
			migXID("GPU-0", 1, 0, 95), one("GPU-0", uncontained),
		},
	} {
		check(t, name, script{{0, observe()}, {1, apply(tc.event)}}, tc.want)
	}
}

func TestViewIsAValue(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	m := health.New(rules)
	m.Observe(node(), minute(0))
	before := m.View()
	if !m.Apply(xid("GPU-0", 79), minute(1)) {
		t.Fatal("xid 79 does not count")
	}
	if !before.Of("GPU-0").Healthy {
		t.Error("a view changed after it was returned")
	}
	if m.View().Of("GPU-0").Healthy {
		t.Error("GPU-0 is healthy after xid 79")
	}
}

func TestAnEventOfNoGPUCountsOnlyIfThereIsOne(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	if health.New(rules).Apply(xid("", 79), minute(0)) {
		t.Error("an xid counts although no GPU is known")
	}
}

func TestOfWhole(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	n := node()
	for name, tc := range map[string]struct {
		event gpu.Event
		want  map[gpu.UUID]health.Status
	}{
		"an XID of a MIG device concerns a GPU that is allocated whole": {
			migXID("GPU-1", 1, 1, 95),
			map[gpu.UUID]health.Status{"GPU-0": {Healthy: true}, "GPU-1": {Kind: cause.DeviceXID, Reason: "mig device 1: " + uncontained}},
		},
		"an XID of the GPU too": {
			xid("GPU-1", 95),
			map[gpu.UUID]health.Status{"GPU-0": {Healthy: true}, "GPU-1": {Kind: cause.DeviceXID, Reason: uncontained}},
		},
		"an XID of another GPU does not": {
			xid("GPU-0", 95),
			map[gpu.UUID]health.Status{"GPU-0": {Kind: cause.DeviceXID, Reason: uncontained}, "GPU-1": {Healthy: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := run(rules, script{{0, observe()}, {1, apply(tc.event)}}).View()
			got := map[gpu.UUID]health.Status{}
			for i := range n.GPUs {
				got[n.GPUs[i].UUID] = v.OfWhole(&n.GPUs[i])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}
