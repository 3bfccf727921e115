package health_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// dice makes random sequences that can be repeated.
type dice struct{ *rand.Rand }

func (d dice) id() gpu.UUID { return []gpu.UUID{"GPU-0", "GPU-1", "GPU-2", ""}[d.IntN(4)] }

// instance is one that exists, or not, or none.
func (d dice) instance() uint32 { return []uint32{gpu.NoInstance, 0, 1, 2, 3}[d.IntN(5)] }

func (d dice) event() gpu.Event {
	kinds := []gpu.EventKind{gpu.EventXID, gpu.EventXID, gpu.EventXID, gpu.EventLost, gpu.EventMIGChanged, gpu.EventTopologyChanged}
	ev := gpu.Event{
		Kind: kinds[d.IntN(len(kinds))], GPU: d.id(),
		GPUInstance: d.instance(), ComputeInstance: d.instance(), XID: d.Uint64N(175),
	}
	if ev.GPUInstance == gpu.NoInstance {
		ev.ComputeInstance = gpu.NoInstance
	}
	return ev
}

// delay is how long a snapshot takes.
func (d dice) delay() time.Duration { return time.Duration(d.IntN(3)) * time.Minute }

// step is anything that can happen on a node whose driver answers actions.
func (d dice) step(recoveries ...gpu.Recovery) step {
	n := node(func(n *gpu.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Recovery = recoveries[d.IntN(len(recoveries))]
			if d.IntN(4) == 0 {
				silent(i)(n)
			}
		}
		if d.IntN(4) == 0 {
			n.GPUs = n.GPUs[d.IntN(len(n.GPUs)):]
		}
		if last := &n.GPUs[len(n.GPUs)-1]; d.IntN(4) == 0 {
			last.MIG = nil
		}
	})
	switch d.IntN(10) {
	case 0:
		return driverGone
	case 1:
		return hangs("no answer")
	case 2:
		return hangs("")
	case 3, 4, 5:
		return func(m *health.Machine, at time.Time) { m.Observe(n, at.Add(-d.delay())) }
	default:
		return apply(d.event())
	}
}

// follow takes a healthy snapshot whenever the Machine waits for one.
func follow(t *testing.T, m *health.Machine, n *gpu.Node) {
	t.Helper()
	for range 20 {
		at, ok := m.Next()
		if !ok {
			return
		}
		m.Observe(n, at)
	}
	at, _ := m.Next()
	t.Fatalf("a healthy node is refreshed forever, next at %v", at)
}

func healthyNode(r gpu.Recovery) *gpu.Node {
	return node(func(n *gpu.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Recovery = r
		}
	})
}

func TestNothingIsUnfitForEver(t *testing.T) {
	actions := []gpu.Recovery{
		gpu.RecoveryUnknown, gpu.RecoveryNone, gpu.RecoveryReset, gpu.RecoveryReboot, gpu.RecoveryDrainP2P, gpu.RecoveryDrainAndReset,
	}
	for name, tc := range map[string]struct {
		during []gpu.Recovery
		end    gpu.Recovery
		// repair is what happens to the GPUs before they are healthy.
		repair step
	}{
		"on a driver that says that the GPUs need nothing": {
			during: actions, end: gpu.RecoveryNone, repair: func(*health.Machine, time.Time) {},
		},
		"on a driver that says nothing, once the GPUs were away": {
			during: []gpu.Recovery{gpu.RecoveryUnknown}, end: gpu.RecoveryUnknown, repair: observe(silent(0), silent(1)),
		},
		"on a driver that says nothing, once that was away": {
			during: []gpu.Recovery{gpu.RecoveryUnknown}, end: gpu.RecoveryUnknown, repair: driverGone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				d := dice{rand.New(rand.NewPCG(seed, 1))}
				rules, _ := health.ParseRules("", "")
				m := health.New(rules)
				now := 0.0
				for range d.IntN(40) {
					now += d.Float64() * 3
					d.step(tc.during...)(m, minute(now))
				}
				m.Hangs("")
				tc.repair(m, minute(now+1))
				m.Observe(healthyNode(tc.end), minute(now+2))
				follow(t, m, healthyNode(tc.end))
				if got := reasons(m.View(), healthyNode(tc.end)); len(got) > 0 {
					t.Fatalf("seed %d: unfit for ever: %v", seed, got)
				}
			}
		})
	}
}

func TestWhatTheHardwareAsksForIsNeverFit(t *testing.T) {
	for seed := range uint64(1000) {
		d := dice{rand.New(rand.NewPCG(seed, 2))}
		rules, _ := health.ParseRules("", "")
		m := health.New(rules)
		m.Observe(node(asks(gpu.RecoveryReboot)), minute(0))
		for i := range 30 {
			now := minute(float64(i))
			if d.IntN(2) == 0 {
				m.Apply(d.event(), now)
			} else {
				m.Observe(node(asks(gpu.RecoveryReboot)), now)
			}
			if m.View().Of("GPU-0").Healthy {
				t.Fatalf("seed %d: GPU-0 is fit although the driver asks for a reboot", seed)
			}
		}
	}
}

// An XID reaches the devices that its GPU and instances hold, and no others.
func TestXIDReachesWhatItConcerns(t *testing.T) {
	for seed := range uint64(3000) {
		d := dice{rand.New(rand.NewPCG(seed, 3))}
		n := d.layout()
		ev := d.event()
		ev.Kind, ev.XID = gpu.EventXID, 95
		rules, _ := health.ParseRules("", "")
		m := health.New(rules)
		m.Observe(n, minute(0))
		m.Apply(ev, minute(1))
		v := m.View()
		want, got := map[gpu.UUID]bool{}, map[gpu.UUID]bool{}
		for _, g := range n.GPUs {
			for _, dev := range g.MIG.Devices {
				want[dev.UUID] = concerned(ev, g, dev)
				got[dev.UUID] = !v.OfMIG(g.UUID, dev).Healthy
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %+v reaches (-want +got):\n%s", seed, ev, diff)
		}
	}
}

// layout is a node whose GPUs have MIG devices at random.
func (d dice) layout() *gpu.Node {
	n := &gpu.Node{}
	for i, id := range []gpu.UUID{"GPU-0", "GPU-1", "GPU-2"} {
		g := gpu.GPU{Index: i, UUID: id, MIG: &gpu.MIG{Enabled: true}}
		for gi := range uint32(4) {
			for ci := range d.Uint32N(4) {
				uuid := id + "/" + gpu.UUID('0'+rune(gi)) + "/" + gpu.UUID('0'+rune(ci))
				g.MIG.Devices = append(g.MIG.Devices, gpu.MIGDevice{UUID: uuid, GPUInstance: gi, ComputeInstance: ci})
			}
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

func concerned(ev gpu.Event, g gpu.GPU, d gpu.MIGDevice) bool {
	return (ev.GPU == "" || ev.GPU == g.UUID) &&
		(ev.GPUInstance == gpu.NoInstance || ev.GPUInstance == d.GPUInstance) &&
		(ev.ComputeInstance == gpu.NoInstance || ev.ComputeInstance == d.ComputeInstance)
}
