package record_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/record"
)

func TestAgentsShareXIDs(t *testing.T) {
	for name, tc := range map[string]struct {
		run func(h *host, a, b *agent)
		// want is the verdict of an agent that starts at the end.
		want bool
	}{
		"an agent that starts later knows the XID": {
			func(_ *host, a, _ *agent) { a.xid("GPU-0", 62, time.Now()) }, false,
		},
		"an XID that the rules ignore is not shared": {
			func(_ *host, a, _ *agent) { a.xid("GPU-0", 13, time.Now()) }, true,
		},
		"SIGHUP removes the XID, and the other agent does not write it again": {
			func(h *host, a, b *agent) {
				a.xid("GPU-0", 95, time.Now())
				b.xid("GPU-0", 95, time.Now())
				a.m.Reset()
				a.sync()
				h.node.GPUs[0].Recovery = gpu.RecoveryReset
				b.observe() // changes its incident
				h.node.GPUs[0].Recovery = gpu.RecoveryUnknown
			}, true,
		},
		"SIGHUP removes an XID from before the start of the agent": {
			func(h *host, a, _ *agent) {
				a.xid("GPU-0", 95, time.Now())
				c := h.start()
				c.m.Reset()
				c.sync()
			}, true,
		},
		"an XID whose end one agent observes stays ended": {
			func(h *host, a, _ *agent) {
				a.xid("GPU-0", 95, time.Now().Add(-time.Hour))
				h.start() // still counts: the driver reports no recovery action
				h.node.GPUs[0].Recovery = gpu.RecoveryNone
				h.start()
				h.node.GPUs[0].Recovery = gpu.RecoveryUnknown
			}, true,
		},
		"an agent removes no XID that is later than its own": {
			func(_ *host, a, b *agent) {
				a.xid("GPU-0", 95, time.Now().Add(-time.Hour))
				b.xid("GPU-0", 95, time.Now())
				a.m.Reset()
				a.sync()
			}, false,
		},
		"a GPU that was away is initialized anew": {
			func(_ *host, a, _ *agent) {
				a.xid("GPU-0", 79, time.Now())
				a.m.DriverGone("gone")
				a.sync()
			}, true,
		},
		"an XID after that counts": {
			func(_ *host, a, b *agent) {
				a.xid("GPU-0", 79, time.Now().Add(-time.Minute))
				b.xid("GPU-0", 79, time.Now().Add(-time.Minute))
				b.m.DriverGone("gone")
				b.sync()
				a.xid("GPU-0", 79, time.Now())
			}, false,
		},
		"a boot ends all": {
			func(h *host, a, _ *agent) {
				a.xid("GPU-0", 95, time.Now())
				write(h.t, h.dir.BootIDFile, "boot-2\n")
			}, true,
		},
		"a driver that was loaded again while no agent ran": {
			func(h *host, a, _ *agent) {
				h.meter.mJ["GPU-0"] = 1e9
				a.xid("GPU-0", 95, time.Now())
				h.meter.mJ["GPU-0"] = 5e3
			}, true,
		},
		"a driver that was not loaded again": {
			func(h *host, a, _ *agent) {
				h.meter.mJ["GPU-0"] = 1e9
				a.xid("GPU-0", 95, time.Now())
				h.meter.mJ["GPU-0"] = 2e9
			}, false,
		},
		"a GPU that loses its counter proves nothing": {
			func(h *host, a, _ *agent) {
				h.meter.mJ["GPU-0"] = 1e9
				a.xid("GPU-0", 95, time.Now())
				delete(h.meter.mJ, "GPU-0")
			}, false,
		},
		"the counter is compared with its value at the last XID": {
			func(h *host, a, _ *agent) {
				h.meter.mJ["GPU-0"] = 1e9
				a.xid("GPU-0", 95, time.Now().Add(-time.Minute))
				h.meter.mJ["GPU-0"] = 5e3 // a driver load that the driver's recovery action outlives
				a.xid("GPU-0", 95, time.Now())
				h.meter.mJ["GPU-0"] = 6e3
			}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			tc.run(h, h.start(), h.start())
			c := h.start()
			if got := c.healthy("GPU-0"); got != tc.want {
				values, _ := h.file()
				t.Errorf("GPU-0 is healthy: %v, want %v (%v)", got, tc.want, values)
			}
			if !c.healthy("GPU-1") {
				t.Error("GPU-1 is not healthy")
			}
		})
	}
}

// Two agents that observe the same write the same in each order of their writes, and write only if
// something differs.
func TestOrderOfWritersDoesNotCount(t *testing.T) {
	for seed := range uint64(40) {
		var results []string
		for _, first := range []int{0, 1} {
			h := newHost(t)
			h.meter.mJ["GPU-0"] = 100
			agents := []*agent{h.start(), h.start()}
			d := rand.New(rand.NewPCG(seed, 1))
			begin := time.Now().Add(-time.Hour)
			for i := range 12 {
				at := begin.Add(time.Duration(i) * 3 * time.Second)
				what, code := d.IntN(6), []uint64{61, 62, 79, 95}[d.IntN(4)]
				for _, n := range []int{first, 1 - first} {
					a := agents[n]
					switch what {
					case 0:
						a.m.DriverGone("gone")
					case 1:
						a.m.Observe(h.node, at.Add(time.Second))
					default:
						ev := gpu.GPUEvent(gpu.EventXID, "GPU-0")
						ev.XID = code
						a.m.Apply(ev, at.Add(time.Duration(n)*100*time.Millisecond))
					}
					a.sync()
				}
			}
			values, _ := h.file()
			var lines []string
			for _, k := range slices.Sorted(maps.Keys(values)) {
				_, flags, _ := strings.Cut(values[k], ",first:")
				_, flags, _ = strings.Cut(flags, ",")
				lines = append(lines, k+" "+flags)
			}
			results = append(results, strings.Join(lines, "\n"))
		}
		if diff := cmp.Diff(results[0], results[1]); diff != "" {
			t.Fatalf("seed %d: the order of the writers counts:\n%s", seed, diff)
		}
	}
}

// An XID that repeats, and that other agents write, makes one write for each second. Nothing is read
// from the driver without a new XID.
func TestStormOfXIDs(t *testing.T) {
	h := newHost(t)
	h.meter.mJ["GPU-0"] = 100
	a, b := h.start(), h.start()
	begin := time.Now().Add(-time.Hour)
	writes, last := 0, time.Time{}
	for i := range 100 { // 2 s
		for _, x := range []*agent{a, b} {
			x.xid("GPU-0", 62, begin.Add(time.Duration(i)*20*time.Millisecond))
			if _, at := h.file(); !at.Equal(last) {
				writes, last = writes+1, at
			}
		}
	}
	if writes != 2 || h.meter.reads != 2 {
		t.Errorf("%d writes and %d reads of the energy in 2 s, want 2 and 2", writes, h.meter.reads)
	}
	for range 3 {
		a.observe()
		b.observe()
	}
	if _, at := h.file(); !at.Equal(last) || h.meter.reads != 2 {
		t.Error("an agent writes or reads the energy although nothing has changed")
	}
}

// Run writes an XID, and writes the last one although its context has ended.
func TestRun(t *testing.T) {
	h := newHost(t)
	rules, _ := health.ParseRules("", "")
	m := health.New(rules)
	r := record.New(record.Config{Contract: h.dir, Writer: "agent", Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ev := gpu.GPUEvent(gpu.EventXID, "GPU-0")
	ev.XID = 95
	m.Apply(ev, time.Now())
	r.Save(m)
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if values, _ := h.file(); len(values) != 1 {
		t.Errorf("the file has %v", values)
	}
}
