package record_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/record"
)

// meter is the energy counters of a node. An agent reads nothing else through it.
type meter struct {
	gpu.Source
	mJ    map[gpu.UUID]uint64
	reads int
}

func (m *meter) Energy(_ context.Context, id gpu.UUID) (uint64, error) {
	m.reads++
	mJ, has := m.mJ[id]
	if !has {
		return 0, errors.New("not supported")
	}
	return mJ, nil
}

// host is a node with its run root.
type host struct {
	t     *testing.T
	dir   contract.Dir
	meter *meter
	node  *gpu.Node
}

func newHost(t *testing.T) *host {
	t.Helper()
	root := t.TempDir()
	boot := filepath.Join(root, "boot_id")
	write(t, boot, "boot-1\n")
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &host{
		t: t, dir: contract.Dir{Root: filepath.Join(root, "run"), BootIDFile: boot}, meter: &meter{mJ: map[gpu.UUID]uint64{}},
		node: &gpu.Node{GPUs: []gpu.GPU{{UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}}},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // no secret
		t.Fatal(err)
	}
}

// agent is one agent of the host, without its goroutines: sync does what they do.
type agent struct {
	h   *host
	m   *health.Machine
	r   *record.Record
	log *strings.Builder
}

// start starts an agent, which takes a snapshot.
func (h *host) start() *agent {
	h.t.Helper()
	rules, _ := health.ParseRules("", "")
	a := &agent{h: h, m: health.New(rules), log: &strings.Builder{}}
	a.r = record.New(record.Config{
		Contract: h.dir, Source: h.meter, Writer: "agent", Log: slog.New(slog.NewTextHandler(a.log, nil)),
	})
	a.observe()
	return a
}

func (a *agent) observe() {
	a.h.t.Helper()
	a.r.Restore(a.h.t.Context(), a.m, a.h.node)
	a.m.Observe(a.h.node, time.Now())
	a.sync()
}

// sync writes the incidents of the agent. Run writes once more after its context has ended.
func (a *agent) sync() {
	a.h.t.Helper()
	a.r.Save(a.m)
	if _, err := record.Step(a.h.t.Context(), a.r); err != nil && !errors.Is(err, contract.ErrNoRunRoot) {
		a.h.t.Error(err)
	}
}

func (a *agent) xid(id gpu.UUID, code uint64, at time.Time) {
	a.h.t.Helper()
	ev := gpu.GPUEvent(gpu.EventXID, id)
	ev.XID = code
	a.m.Apply(ev, at)
	a.sync()
}

func (a *agent) healthy(id gpu.UUID) bool { return a.m.View().Of(id).Healthy }

// file returns the lines of the file, and the time of the last write.
func (h *host) file() (map[string]string, time.Time) {
	f := h.dir.Read(contract.GPUIncidents)
	return f.Values, f.Stamp.Time
}

func (h *host) path() string { return h.dir.Path(contract.GPUIncidents) }

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

func TestHostileFiles(t *testing.T) {
	stamp := "OUTRIGGER_WRITER=x\nOUTRIGGER_BOOT_ID=boot-1\nOUTRIGGER_TIME=2026-01-01T00:00:00Z\n"
	var many, old strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, "XID_95_ALL_ALL_GPU_%d=last:1\n", 100+i)
		fmt.Fprintf(&old, "XID_%d_ALL_ALL_GPU_0=last:1\n", 1000+i)
	}
	for name, tc := range map[string]struct {
		text    string
		healthy bool
		warns   bool
	}{
		"a good line":                 {stamp + "XID_95_ALL_ALL_GPU_0=last:1,first:1", false, false},
		"a field of a later release":  {stamp + "XID_95_ALL_ALL_GPU_0=last:1,color:red\nOTHER=1", false, false},
		"a time in the future":        {stamp + "XID_95_ALL_ALL_GPU_0=last:99999999999999,first:18446744073709551615", false, false},
		"no stamp":                    {"XID_95_ALL_ALL_GPU_0=last:1", true, false},
		"no time":                     {stamp + "XID_95_ALL_ALL_GPU_0=away", true, true},
		"no number":                   {stamp + "XID_x_ALL_ALL_GPU_0=last:1", true, true},
		"a number that is too large":  {stamp + "XID_99999999999999999999_ALL_ALL_GPU_0=last:1", true, true},
		"no GPU":                      {stamp + "XID_95_ALL_ALL_=last:1", true, true},
		"no instance":                 {stamp + "XID_95_GPU_0=last:1", true, true},
		"an instance too large":       {stamp + "XID_95_4294967296_ALL_GPU_0=last:1", true, true},
		"half an instance":            {stamp + "XID_95_ALL_1_GPU_0=last:1", true, true},
		"a bad counter":               {stamp + "XID_95_ALL_ALL_GPU_0=last:1,energy:-5", true, true},
		"a bad device":                {stamp + "XID_95_ALL_ALL_GPU_0=last:1,device:a/b", true, true},
		"no lines":                    {"\x00\x01", true, true},
		"too many XIDs":               {stamp + many.String(), true, true},
		"too many XIDs that are over": {stamp + old.String(), true, true},
		"too many bytes":              {stamp + strings.Repeat("#", 70<<10), true, true},
		"empty":                       {"", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if err := os.MkdirAll(filepath.Dir(h.path()), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, h.path(), tc.text)
			a := h.start()
			if got := a.healthy("GPU-0"); got != tc.healthy {
				t.Errorf("GPU-0 is healthy: %v, want %v", got, tc.healthy)
			}
			for range 3 {
				a.observe()
			}
			if n := strings.Count(a.log.String(), "level=WARN"); n > 1 || n > 0 != tc.warns {
				t.Errorf("%d warnings:\n%s", n, a.log)
			}
			a.xid("GPU-1", 95, time.Now())
			if b := h.start(); b.healthy("GPU-1") != (name == "too many XIDs") {
				t.Errorf("the agent did not share an XID after it found the file")
			}
		})
	}
}

// Without a run root, an agent knows what it observes.
func TestNoRunRoot(t *testing.T) {
	for name, root := range map[string]string{"empty": "", "missing": "/nonexistent/run"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.dir.Root = root
			a := h.start()
			a.xid("GPU-0", 95, time.Now())
			if a.healthy("GPU-0") {
				t.Error("xid 95 does not count")
			}
			if strings.Contains(a.log.String(), "WARN") {
				t.Errorf("warnings:\n%s", a.log)
			}
		})
	}
	var none *record.Record
	none.Save(nil)
	none.Restore(t.Context(), nil, nil)
	if err := none.Run(t.Context()); err != nil {
		t.Error(err)
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
