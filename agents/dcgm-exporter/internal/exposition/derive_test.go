package exposition_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/field"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/podresources"
)

var began = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// list parses a list of metrics.
func list(t *testing.T, text string) []counters.Metric {
	t.Helper()
	metrics, problems, err := counters.Parse([]byte(text))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return metrics
}

const few = `DCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).
DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).
DCGM_FI_DEV_FB_USED, gauge, Framebuffer memory used (in MiB).
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Total energy consumption since boot (in mJ).
DCGM_FI_DEV_XID_ERRORS, gauge, Value of the last XID error encountered.
DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time the graphics engine is active.
DCGM_FI_DRIVER_VERSION, label, Driver Version
DCGM_FI_DEV_SERIAL, label, Serial number
`

// options are those of the flags by default.
func options(t *testing.T) exposition.Options {
	return exposition.Options{
		Metrics: list(t, few), Names: exposition.Spelled, Hostname: []string{"Hostname"},
		Devices: exposition.Selector{Flexible: true}, XIDWindow: 5 * time.Minute, ClockWindow: 5 * time.Minute,
	}
}

// whole are the values of a GPU.
func whole() telemetry.Values {
	return telemetry.Values{
		telemetry.DCGM_FI_DEV_SM_CLOCK: 1980, telemetry.DCGM_FI_DEV_GPU_UTIL: 42, telemetry.DCGM_FI_DEV_FB_USED: 1024, telemetry.DCGM_FI_DEV_FB_USED_BYTES: 1024<<20 + 512, telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION: 12_345_678,
		telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO: 0.5, telemetry.PCIeTxBytes: 5e9, telemetry.ThrottledHWThermal: 3e9, telemetry.DCGM_FI_DEV_GPU_RECOVERY_ACTION: 0,
	}
}

// state is a node with one H100.
func state() exposition.State {
	node := gputest.Node("h100-80", 1)
	g := exposition.GPU{GPU: node.GPUs[0], Up: true, Sample: &telemetry.Sample{
		At: began, Took: 2 * time.Millisecond, GPU: whole(), Texts: map[telemetry.Field]string{53: "1234567890"},
	}}
	return exposition.State{Host: "node1", Driver: node.Driver, GPUs: []exposition.GPU{g}}
}

// divided is a node with one H100 in MIG mode.
func divided() exposition.State {
	s := state()
	node := gputest.Partition(gputest.Node("h100-80", 1), 0, "3g.40gb", "1g.10gb")
	s.GPUs[0].GPU = node.GPUs[0]
	values := whole()
	for _, f := range []telemetry.Field{telemetry.DCGM_FI_DEV_GPU_UTIL, telemetry.DCGM_FI_DEV_FB_USED, telemetry.DCGM_FI_DEV_FB_USED_BYTES, telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO} {
		delete(values, f)
	}
	s.GPUs[0].Sample.GPU = values
	s.GPUs[0].Sample.Instances = map[uint32]telemetry.Values{}
	for i, d := range node.GPUs[0].MIG.Devices {
		s.GPUs[0].Sample.Instances[d.GPUInstance] = telemetry.Values{telemetry.DCGM_FI_DEV_FB_USED: float64(100 * (i + 1)), telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO: 0.25}
	}
	return s
}

// user is a container of a pod.
func user(pod, container string) podresources.User {
	return podresources.User{Namespace: "ml", Pod: pod, Container: container, Resource: "nvidia.com/gpu"}
}

// text is what a scrape gets.
func text(t *testing.T, s exposition.State, o exposition.Options) string {
	t.Helper()
	var out bytes.Buffer
	for _, f := range exposition.Derive(s, o) {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	checkUnique(t, out.String())
	return out.String()
}

// checkUnique checks that no metric is served twice: Prometheus rejects the whole scrape.
func checkUnique(t *testing.T, text string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		series := line[:max(0, strings.LastIndex(line, " "))]
		if !strings.HasPrefix(line, "#") && seen[series] {
			t.Errorf("%s is served twice", series)
		}
		seen[series] = true
	}
}

func TestDerive(t *testing.T) {
	for name, c := range map[string]func(*exposition.State, *exposition.Options){
		"plain": func(*exposition.State, *exposition.Options) {},
		"pod": func(s *exposition.State, _ *exposition.Options) {
			s.Pods = podresources.Map{s.GPUs[0].UUID: {user("train", "main")}}
		},
		"namespace": old,
		"dcgm47":    func(_ *exposition.State, o *exposition.Options) { o.Names = exposition.DCGM47 },
		"both": func(_ *exposition.State, o *exposition.Options) {
			o.Names, o.Hostname = exposition.Both, []string{"Hostname", "hostname"}
		},
		"shared": shared,
		"virtual": func(s *exposition.State, o *exposition.Options) {
			shared(s, o)
			o.VirtualGPUs = true
		},
		"mig": func(s *exposition.State, _ *exposition.Options) { mig(s) },
		"mig-xid": func(s *exposition.State, _ *exposition.Options) {
			mig(s)
			s.GPUs[0].XIDs = []exposition.XID{
				{Code: 31, Instance: gpu.NoInstance, Total: 1, Recent: 1},
				{Code: 31, Instance: s.GPUs[0].MIG.GPUInstances[0].ID, Total: 3, Recent: 2},
				{Code: 31, Instance: 14, Total: 5}, // it is gone
			}
		},
		"mig-dedupe": func(s *exposition.State, o *exposition.Options) { mig(s); o.Dedupe = true },
		"mig-empty": func(s *exposition.State, _ *exposition.Options) {
			s.GPUs[0].MIG = &gpu.MIG{Enabled: true, Pending: true}
		},
		"lost": func(s *exposition.State, _ *exposition.Options) {
			s.GPUs[0].Up, s.GPUs[0].Sample = false, nil
			s.GPUs[0].LastXID, s.GPUs[0].LastXIDAt = 79, began
			s.GPUs[0].XIDs = []exposition.XID{{Code: 79, Instance: gpu.NoInstance, Total: 2, Recent: 1}}
			s.GPUs[0].Errors = map[string]uint64{"nvmlDeviceGetPowerUsage": 3}
		},
		"absent": func(s *exposition.State, _ *exposition.Options) {
			delete(s.GPUs[0].Sample.GPU, telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO)
			s.GPUs[0].Sample.Absent = map[telemetry.Field]string{telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO: "needs GPM, which Hopper and later GPUs have"}
		},
		"jobs": func(s *exposition.State, _ *exposition.Options) {
			s.Jobs = func(int, uint32) []string { return []string{"job 2", "job\n\"1\"", "job 2"} }
		},
		"labels": func(s *exposition.State, _ *exposition.Options) {
			s.Pods = podresources.Map{s.GPUs[0].UUID: {user("train", "main")}}
			s.Labels = func(podresources.User) []exposition.Label {
				return []exposition.Label{{Name: "team", Value: `a "b"`}, {Name: "gpu", Value: "fake"}, {Name: "pod", Value: "fake"}}
			}
		},
		"computed": computed,
		"accounts": func(s *exposition.State, _ *exposition.Options) {
			s.Accounts = []exposition.Account{
				{GPU: s.GPUs[0].UUID, Instance: gpu.NoInstance, User: user("train", "main"), Allocated: 60, Idle: 10, SM: 45, Known: true, Joules: 900, Metered: true, Memory: 1 << 30},
				{GPU: s.GPUs[0].UUID, Instance: gpu.NoInstance, User: user("serve", "main"), Allocated: 60, Memory: -1},
				{GPU: "GPU-gone", Instance: gpu.NoInstance, User: user("gone", "main"), Allocated: 60},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := state(), options(t)
			if name == "computed" || name == "mig-xid" {
				o.Metrics = list(t, few+"DCGM_EXP_XID_ERRORS_COUNT, gauge, c\nDCGM_EXP_XID_ERRORS_TOTAL, counter, t\n"+
					"DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, c\nDCGM_EXP_CLOCK_EVENTS_TOTAL, counter, t\n"+
					"DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\nDCGM_EXP_P2P_STATUS, gauge, p\n")
			}
			c(&s, &o)
			golden.Assert(t, text(t, s, o), name+".golden")
		})
	}
}

func old(s *exposition.State, o *exposition.Options) {
	s.Pods = podresources.Map{s.GPUs[0].UUID: {user("train", "main")}}
	o.OldNamespace, o.ReplaceBlanks = true, true
}

func shared(s *exposition.State, _ *exposition.Options) {
	a, b := user("train", "main"), user("serve", "main")
	a.Replica, b.Replica = "0", "1"
	s.Pods = podresources.Map{s.GPUs[0].UUID: {a, b}}
}

func mig(s *exposition.State) {
	*s = divided()
	s.Pods = podresources.Map{s.GPUs[0].MIG.Devices[0].UUID: {user("train", "main")}}
}

func computed(s *exposition.State, o *exposition.Options) {
	s.GPUs[0].XIDs = []exposition.XID{{Code: 31, Instance: 1, Total: 3, Recent: 1}, {Code: 31, Instance: 2, Total: 1, Recent: 1}}
	s.GPUs[0].Clocks = []exposition.ClockEvent{{Reason: "power_cap", Total: 2, Recent: 9}}
	for _, peer := range gputest.Node("h100-80", 4).GPUs[1:] {
		s.GPUs = append(s.GPUs, exposition.GPU{GPU: peer})
	}
	s.GPUs[0].Sample.Peers = map[gpu.UUID]uint32{s.GPUs[1].UUID: 0, s.GPUs[2].UUID: 5, s.GPUs[3].UUID: 9, "GPU-of-another-node": 0}
	o.Devices = exposition.Selector{GPUs: []int{0}}
}

// The copies for the containers of a shared GPU have what each of them uses, where it is known.
func TestCopiesHaveTheirOwnUse(t *testing.T) {
	s, o := state(), options(t)
	shared(&s, &o)
	o.VirtualGPUs = true
	account := func(pod string, busy, memory float64) exposition.Account {
		return exposition.Account{GPU: s.GPUs[0].UUID, Instance: gpu.NoInstance, User: user(pod, "main"), Known: busy >= 0, Busy: busy, Memory: memory}
	}
	s.Accounts = []exposition.Account{account("train", 0.256, 700<<20+1), account("serve", -1, -1)}
	out := text(t, s, o)
	for _, c := range []struct{ metric, pod, want string }{
		{"DCGM_FI_DEV_GPU_UTIL", "", "42"},
		{"DCGM_FI_DEV_FB_USED", "", "1024"},
		{"DCGM_FI_DEV_GPU_UTIL", "train", "26"},
		{"DCGM_FI_DEV_FB_USED", "train", "700"},
		{"DCGM_FI_DEV_SM_CLOCK", "train", "1980"},
		{"DCGM_FI_DEV_GPU_UTIL", "serve", "42"},
		{"DCGM_FI_DEV_FB_USED", "serve", "1024"},
	} {
		var got []string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, c.metric+"{") && strings.Contains(line, `pod="`+c.pod+`"`) == (c.pod != "") && strings.Contains(line, "pod=") == (c.pod != "") {
				got = append(got, strings.Fields(line)[len(strings.Fields(line))-1])
			}
		}
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s of pod %q: %v, want %s", c.metric, c.pod, got, c.want)
		}
	}
}

// Sums over the GPU instances of a GPU are the values of the GPU: for links always, for other values of the
// GPU with --mig-gpu-metrics=dedupe.
func TestSumsOverGPUInstances(t *testing.T) {
	checked := 0
	for f := range field.All() {
		if !f.Link && f.ID != telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION || !counters.Served(f) || f.Text {
			continue
		}
		checked++
		s, o := divided(), options(t)
		s.GPUs[0].Sample.GPU[f.ValueFrom] = 1000
		o.Metrics = list(t, f.Name+", gauge, x\n")
		sum := func() (total float64) {
			for _, family := range exposition.Derive(s, o) {
				if family.GetName() == f.Name {
					for _, m := range family.Metric {
						total += m.GetGauge().GetValue()
					}
				}
			}
			return total
		}
		want := 1000 * f.Scale
		if got := sum(); f.Link && got != want || !f.Link && got != 2*want {
			t.Errorf("%s: the sum is %g, the value of the GPU is %g", f.Name, got, want)
		}
		o.Dedupe = true
		if got := sum(); got != want {
			t.Errorf("%s with dedupe: the sum is %g, want %g", f.Name, got, want)
		}
	}
	if checked < 100 {
		t.Errorf("%d fields checked", checked)
	}
}

func TestDevices(t *testing.T) {
	for _, c := range []struct {
		selector exposition.Selector
		want     []string
	}{
		{exposition.Selector{Flexible: true}, []string{"0/1", "0/2", "1/"}},
		{exposition.Selector{GPUs: []int{}}, []string{"0/", "1/"}},
		{exposition.Selector{GPUs: []int{1}}, []string{"1/"}},
		{exposition.Selector{Instances: []int{}}, []string{"0/1", "0/2"}},
		{exposition.Selector{Instances: []int{2}}, []string{"0/2"}},
		{exposition.Selector{GPUs: []int{1}, Instances: []int{1}}, []string{"0/1", "1/"}},
		{exposition.Selector{GPUs: []int{7}}, nil},
	} {
		s, o := divided(), options(t)
		s.GPUs[0].MIG.GPUInstances[0].ID, s.GPUs[0].MIG.GPUInstances[1].ID = 1, 2
		s.GPUs[0].Sample.Instances = map[uint32]telemetry.Values{1: {telemetry.DCGM_FI_DEV_FB_USED: 1}, 2: {telemetry.DCGM_FI_DEV_FB_USED: 2}}
		s.GPUs[0].Sample.GPU[telemetry.DCGM_FI_DEV_FB_USED] = 3
		other := state().GPUs[0]
		other.Index, other.UUID = 1, "GPU-other"
		s.GPUs = append(s.GPUs, other)
		o.Devices = c.selector
		var got []string
		for _, f := range exposition.Derive(s, o) {
			if f.GetName() != "DCGM_FI_DEV_FB_USED" {
				continue
			}
			for _, m := range f.Metric {
				labels := map[string]string{}
				for _, l := range m.Label {
					labels[l.GetName()] = l.GetValue()
				}
				got = append(got, labels["gpu"]+"/"+labels["GPU_I_ID"])
			}
		}
		slices.Sort(got)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%+v: %v, want %v", c.selector, got, c.want)
		}
	}
}
