package label_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/pci"
)

// lines parses labels without their domain, separated by spaces.
func lines(text string) map[string]string {
	out := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		out["nvidia.com/"+key] = value
	}
	return out
}

// devices returns the labels that describe devices and how they are advertised.
func devices(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool {
		name := strings.TrimPrefix(key, "nvidia.com/")
		return strings.HasPrefix(name, "cuda.") || strings.HasPrefix(name, "vgpu.") || name == "gpu.machine" || name == "gpu.mode"
	})
	return out
}

const ampere = " gpu.family=ampere gpu.compute.major=8 gpu.compute.minor=0 mig.capable=true "

// TestDevicesAsUpstream compares all labels with those of NVIDIA's feature discovery
// 0.20, taken from its source and documentation, on nodes and with configs that it
// supports.
func TestDevicesAsUpstream(t *testing.T) {
	oneG := "engines.copy=1 engines.decoder=0 engines.encoder=0 engines.jpeg=0 engines.ofa=0 memory=4864 multiprocessors=14 slices.ci=1 slices.gi=1"
	threeG := "engines.copy=3 engines.decoder=2 engines.encoder=0 engines.jpeg=0 engines.ofa=0 memory=19968 multiprocessors=42 slices.ci=3 slices.gi=3"
	with := func(prefix, words string) string {
		return " " + prefix + strings.ReplaceAll(words, " ", " "+prefix) + " "
	}
	for name, tc := range map[string]struct {
		node   *gpu.Node
		config []string
		want   string
	}{
		"GPUs without MIG": {
			node: gputest.Divided(gputest.L4, 4),
			want: "gpu.product=NVIDIA-L4 gpu.count=4 gpu.replicas=1 gpu.sharing-strategy=none gpu.memory=23034" +
				" gpu.family=ada-lovelace gpu.compute.major=8 gpu.compute.minor=9 mig.capable=false mps.capable=false",
		},
		"time-slicing": {
			node:   gputest.Divided(gputest.L4, 4),
			config: []string{sharing("timeSlicing", "", 10, "nvidia.com/gpu")},
			want: "gpu.product=NVIDIA-L4-SHARED gpu.count=4 gpu.replicas=10 gpu.sharing-strategy=time-slicing gpu.memory=23034" +
				" gpu.family=ada-lovelace gpu.compute.major=8 gpu.compute.minor=9 mig.capable=false mps.capable=false",
		},
		"time-slicing under another name": {
			node:   gputest.Divided(gputest.L4, 4),
			config: []string{sharing("timeSlicing", "renameByDefault: true, ", 10, "nvidia.com/gpu")},
			want: "gpu.product=NVIDIA-L4 gpu.count=4 gpu.replicas=10 gpu.sharing-strategy=time-slicing gpu.memory=23034" +
				" gpu.family=ada-lovelace gpu.compute.major=8 gpu.compute.minor=9 mig.capable=false mps.capable=false",
		},
		"MPS": {
			node:   gputest.Divided(gputest.L4, 4),
			config: []string{sharing("mps", "", 10, "nvidia.com/gpu")},
			want: "gpu.product=NVIDIA-L4-SHARED gpu.count=4 gpu.replicas=10 gpu.sharing-strategy=mps gpu.memory=23034" +
				" gpu.family=ada-lovelace gpu.compute.major=8 gpu.compute.minor=9 mig.capable=false mps.capable=true",
		},
		"strategy none, a GPU in MIG mode does not count as advertised": {
			node: gputest.Divided(gputest.A100, 1, gputest.Times(7, "1g.5gb")),
			want: "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none gpu.memory=40960" + ampere + "mps.capable=false",
		},
		"strategy none, a GPU in MIG mode is not shared": {
			node:   gputest.Divided(gputest.A100, 1, gputest.Times(7, "1g.5gb")),
			config: []string{sharing("timeSlicing", "", 2, "nvidia.com/gpu")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none gpu.memory=40960" + ampere + "mps.capable=false",
		},
		"strategy none, one GPU of two is in MIG mode": {
			node:   gputest.Divided(gputest.A100, 2, gputest.Times(7, "1g.5gb")),
			config: []string{sharing("timeSlicing", "", 2, "nvidia.com/gpu")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED gpu.count=2 gpu.replicas=2 gpu.sharing-strategy=time-slicing gpu.memory=40960" + ampere + "mps.capable=false",
		},
		"strategy single, no GPU in MIG mode": {
			node:   gputest.Divided(gputest.A100, 2),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=2 gpu.replicas=1 gpu.sharing-strategy=none gpu.memory=40960 mig.strategy=single" + ampere + "mps.capable=false",
		},
		"strategy single, all partitioned alike": {
			node:   gputest.Divided(gputest.A100, 2, gputest.Times(7, "1g.5gb"), gputest.Times(7, "1g.5gb")),
			config: []string{strategy("single")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb gpu.count=14 gpu.replicas=1 gpu.sharing-strategy=none mig.strategy=single" +
				ampere + "mps.capable=false" + with("gpu.", oneG),
		},
		"strategy single, all alike and shared": {
			node:   gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")),
			config: []string{strategy("single"), sharing("timeSlicing", "", 5, "nvidia.com/gpu")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED gpu.count=2 gpu.replicas=5 gpu.sharing-strategy=time-slicing mig.strategy=single" +
				ampere + "mps.capable=false" + with("gpu.", threeG),
		},
		"strategy single, all alike and shared under another name": {
			node:   gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")),
			config: []string{strategy("single"), sharing("timeSlicing", "renameByDefault: true, ", 5, "nvidia.com/gpu")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=2 gpu.replicas=5 gpu.sharing-strategy=time-slicing mig.strategy=single" +
				ampere + "mps.capable=false" + with("gpu.", threeG),
		},
		"strategy single, no device at all": {
			node:   gputest.Divided(gputest.A100, 2, nil, nil),
			config: []string{strategy("single")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-INVALID gpu.count=0 gpu.replicas=0 gpu.sharing-strategy= gpu.memory=0 mig.strategy=single" +
				ampere + "mps.capable=false",
		},
		"strategy mixed, one GPU is divided and one is whole": {
			node:   gputest.Divided(gputest.A100, 2, []string{"3g.20gb", "1g.5gb", "1g.5gb"}),
			config: []string{strategy("mixed")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=2 gpu.replicas=1 gpu.sharing-strategy=none gpu.memory=40960 mig.strategy=mixed" + ampere + "mps.capable=false" +
				" mig-1g.5gb.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb mig-1g.5gb.count=2 mig-1g.5gb.replicas=1 mig-1g.5gb.sharing-strategy=none" + with("mig-1g.5gb.", oneG) +
				" mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb mig-3g.20gb.count=1 mig-3g.20gb.replicas=1 mig-3g.20gb.sharing-strategy=none" + with("mig-3g.20gb.", threeG),
		},
		"strategy mixed, one profile is shared, and no GPU is whole": {
			node:   gputest.Divided(gputest.A100, 1, []string{"3g.20gb", "1g.5gb", "1g.5gb"}),
			config: []string{strategy("mixed"), sharing("timeSlicing", "", 3, "nvidia.com/mig-1g.5gb")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none gpu.memory=40960 mig.strategy=mixed" + ampere + "mps.capable=false" +
				" mig-1g.5gb.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED mig-1g.5gb.count=2 mig-1g.5gb.replicas=3 mig-1g.5gb.sharing-strategy=time-slicing" + with("mig-1g.5gb.", oneG) +
				" mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb mig-3g.20gb.count=1 mig-3g.20gb.replicas=1 mig-3g.20gb.sharing-strategy=none" + with("mig-3g.20gb.", threeG),
		},
		"strategy mixed, a plus in the profile": {
			node:   gputest.Divided(gputest.A100, 1, []string{"1g.5gb+me"}),
			config: []string{strategy("mixed"), sharing("timeSlicing", "renameByDefault: true, ", 3, "nvidia.com/mig-1g.5gb.me")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none gpu.memory=40960 mig.strategy=mixed" + ampere + "mps.capable=false" +
				" mig-1g.5gb.me.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me mig-1g.5gb.me.count=1 mig-1g.5gb.me.replicas=3 mig-1g.5gb.me.sharing-strategy=time-slicing" +
				with("mig-1g.5gb.me.", "engines.copy=1 engines.decoder=1 engines.encoder=0 engines.jpeg=1 engines.ofa=1 memory=4864 multiprocessors=14 slices.ci=1 slices.gi=1"),
		},
		"strategy mixed, GPU instances are divided further": {
			node:   gputest.Divided(gputest.A100, 1, gputest.Times(3, "1c.3g.20gb")),
			config: []string{strategy("mixed")},
			want: "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none gpu.memory=40960 mig.strategy=mixed" + ampere + "mps.capable=false" +
				" mig-1c.3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-1c.3g.20gb mig-1c.3g.20gb.count=3 mig-1c.3g.20gb.replicas=1 mig-1c.3g.20gb.sharing-strategy=none" +
				with("mig-1c.3g.20gb.", "engines.copy=3 engines.decoder=2 engines.encoder=0 engines.jpeg=0 engines.ofa=0 memory=19968 multiprocessors=14 slices.ci=1 slices.gi=3"),
		},
		"strategy mixed, a GPU in MIG mode has no devices": {
			node:   gputest.Divided(gputest.A100, 1, nil),
			config: []string{strategy("mixed")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none gpu.memory=40960 mig.strategy=mixed" + ampere + "mps.capable=false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := devices(of(t, facts(tc.node, load(t, tc.config...))))
			if diff := cmp.Diff(lines(tc.want), got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFamilies(t *testing.T) {
	for want, capabilities := range map[string][]gpu.Version{
		"tesla":        {{Major: 1, Minor: 3}},
		"fermi":        {{Major: 2, Minor: 0}},
		"kepler":       {{Major: 3, Minor: 7}},
		"maxwell":      {{Major: 5, Minor: 2}},
		"pascal":       {{Major: 6, Minor: 1}},
		"volta":        {{Major: 7, Minor: 0}, {Major: 7, Minor: 2}},
		"turing":       {{Major: 7, Minor: 5}},
		"ampere":       {{Major: 8, Minor: 0}, {Major: 8, Minor: 6}, {Major: 8, Minor: 7}},
		"ada-lovelace": {{Major: 8, Minor: 9}},
		"hopper":       {{Major: 9, Minor: 0}},
		// 11.0 is Jetson Thor, which NVIDIA's feature discovery calls undefined,
		// and 12.1 GB10.
		"blackwell": {{Major: 10, Minor: 0}, {Major: 10, Minor: 3}, {Major: 11, Minor: 0}, {Major: 12, Minor: 0}, {Major: 12, Minor: 1}},
		"rubin":     {{Major: 13, Minor: 0}},
		"undefined": {{Major: 4, Minor: 0}, {Major: 14, Minor: 0}},
	} {
		for _, cc := range capabilities {
			n := gputest.Divided(gputest.L4, 1)
			n.GPUs[0].ComputeCapability = cc
			if got := of(t, facts(n, config.Config{}))["nvidia.com/gpu.family"]; got != want {
				t.Errorf("family of %d.%d is %q, want %q", cc.Major, cc.Minor, got, want)
			}
		}
	}
	n := gputest.Divided(gputest.L4, 1)
	n.GPUs[0].ComputeCapability = gpu.Version{}
	got := of(t, facts(n, config.Config{}))
	for _, key := range []string{"nvidia.com/gpu.family", "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"} {
		if value, ok := got[key]; ok {
			t.Errorf("%s=%s is set without a compute capability", key, value)
		}
	}
}

// TestTheNodeAsUpstream checks the labels that describe no device.
func TestTheNodeAsUpstream(t *testing.T) {
	display := func(bus string) pci.Device {
		return pci.Device{BusID: bus, Class: 0x030000, VGPU: pci.VGPU{Known: true}}
	}
	compute := func(bus string) pci.Device {
		return pci.Device{BusID: bus, Class: 0x030200, VGPU: pci.VGPU{Known: true}}
	}
	virtual := func(bus, version, branch string) pci.Device {
		return pci.Device{BusID: bus, Class: 0x030000, VGPU: pci.VGPU{Known: true, Present: true, HostDriverVersion: version, HostDriverBranch: branch}}
	}
	unread := pci.Device{BusID: "0000:07:00.0", Class: 0x030200}
	const first, second = "0000:07:00.0", "0000:0f:00.0" // the GPUs of gputest
	for name, tc := range map[string]struct {
		change func(f *label.Facts)
		want   string
		absent string
	}{
		"versions": {
			want: "cuda.driver-version.full=580.95.05 cuda.driver-version.major=580 cuda.driver-version.minor=95 cuda.driver-version.revision=05" +
				" cuda.driver.major=580 cuda.driver.minor=95 cuda.driver.rev=05 cuda.runtime-version.full=13.0" +
				" cuda.runtime-version.major=13 cuda.runtime-version.minor=0 cuda.runtime.major=13 cuda.runtime.minor=0",
		},
		"a driver version of two numbers": {
			change: func(f *label.Facts) { f.Node.Driver.Version = "460.16" },
			want: "cuda.driver-version.full=460.16 cuda.driver-version.major=460 cuda.driver-version.minor=16 cuda.driver-version.revision=" +
				" cuda.driver.major=460 cuda.driver.minor=16 cuda.driver.rev=",
		},
		"a driver version of one number": {
			change: func(f *label.Facts) { f.Node.Driver.Version = "460" },
			want:   "cuda.driver-version.full=460 cuda.driver-version.major=460 cuda.driver.major=460",
			absent: "cuda.driver.minor cuda.driver.rev cuda.driver-version.minor cuda.driver-version.revision",
		},
		"no versions": {
			change: func(f *label.Facts) { f.Node.Driver = gpu.Driver{} },
			absent: "cuda.driver-version.full cuda.driver.major cuda.driver.minor cuda.driver.rev cuda.driver-version.revision" +
				" cuda.runtime.major cuda.runtime.minor cuda.runtime-version.full",
		},
		"machine":                     {change: func(f *label.Facts) { f.Machine = " PowerEdge  R750xa\n" }, want: "gpu.machine=PowerEdge-R750xa"},
		"machine with odd characters": {change: func(f *label.Facts) { f.Machine = "Standard PC (Q35 + ICH9, 2009)" }, want: "gpu.machine=Standard-PC-Q35-ICH9-2009"},
		"machine with a placeholder":  {change: func(f *label.Facts) { f.Machine = "To Be Filled By O.E.M." }, want: "gpu.machine=To-Be-Filled-By-O.E.M"},
		"no machine":                  {change: func(f *label.Facts) { f.Machine = "" }, want: "gpu.machine=unknown"},
		"machine of other letters":    {change: func(f *label.Facts) { f.Machine = "服务器" }, want: "gpu.machine=unknown"},
		"all for computing":           {change: func(f *label.Facts) { f.PCI = []pci.Device{compute(first), compute(second)} }, want: "gpu.mode=compute"},
		"all for displays":            {change: func(f *label.Facts) { f.PCI = []pci.Device{display(first), display(second)} }, want: "gpu.mode=graphics"},
		"both":                        {change: func(f *label.Facts) { f.PCI = []pci.Device{compute(first), display(second)} }, want: "gpu.mode=unknown"},
		"another class": {
			change: func(f *label.Facts) { f.PCI = []pci.Device{{BusID: first, Class: 0x030100}} },
			want:   "gpu.mode=unknown",
		},
		"a display GPU that the driver does not manage": {
			change: func(f *label.Facts) { f.PCI = []pci.Device{compute(first), compute(second), display("0000:f0:00.0")} },
			want:   "gpu.mode=compute",
		},
		"an audio device on the GPU": {
			change: func(f *label.Facts) { f.PCI = []pci.Device{display(first), {BusID: first, Class: 0x040300}} },
			want:   "gpu.mode=graphics vgpu.present=false",
		},
		"no bus": {
			change: func(f *label.Facts) { f.PCI = nil },
			want:   "gpu.mode=unknown",
			absent: "vgpu.present vgpu.host-driver-version vgpu.host-driver-branch",
		},
		"virtual GPUs": {
			change: func(f *label.Facts) {
				f.PCI = []pci.Device{virtual(second, "460.16", "r460_00"), virtual(first, "", "")}
			},
			want: "vgpu.present=true vgpu.host-driver-version=460.16 vgpu.host-driver-branch=r460_00",
		},
		"virtual GPUs of a host that does not report its driver": {
			change: func(f *label.Facts) { f.PCI = []pci.Device{virtual(first, "", "")} },
			want:   "vgpu.present=true",
			absent: "vgpu.host-driver-version vgpu.host-driver-branch",
		},
		"GPUs that may be virtual": {
			change: func(f *label.Facts) { f.PCI = []pci.Device{unread, compute(second)} },
			absent: "vgpu.present vgpu.host-driver-version vgpu.host-driver-branch",
		},
		"one that may be virtual and one that is": {
			change: func(f *label.Facts) { f.PCI = []pci.Device{unread, virtual(second, "1.2", "r1")} },
			want:   "vgpu.present=true vgpu.host-driver-version=1.2 vgpu.host-driver-branch=r1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(gputest.Node(gputest.L4, 2), config.Config{})
			if tc.change != nil {
				tc.change(&f)
			}
			check(t, of(t, f), tc.want, tc.absent)
		})
	}
}

// check reports labels of want that are missing or differ, and labels of absent that
// exist.
func check(t *testing.T, got map[string]string, want, absent string) {
	t.Helper()
	for key, value := range lines(want) {
		if is, ok := got[key]; !ok || is != value {
			t.Errorf("%s=%q (set: %v), want %q", key, is, ok, value)
		}
	}
	for key := range lines(absent) {
		if value, ok := got[key]; ok {
			t.Errorf("%s=%q, want no such label", key, value)
		}
	}
}

func TestCliques(t *testing.T) {
	const cluster = "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21"
	joined := func(uuid string, clique uint32) *gpu.Fabric {
		return &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess, ClusterUUID: uuid, CliqueID: clique}
	}
	joining := &gpu.Fabric{State: gpu.FabricInProgress}
	failed := &gpu.Fabric{State: gpu.FabricCompleted, Status: "Insufficient Resources", ClusterUUID: cluster, CliqueID: 9}
	for name, tc := range map[string]struct {
		fabrics []*gpu.Fabric
		want    string
	}{
		"no fabric":                {[]*gpu.Fabric{nil, nil}, ""},
		"all agree":                {[]*gpu.Fabric{joined(cluster, 0), joined(cluster, 0)}, cluster + ".0"},
		"clique of another number": {[]*gpu.Fabric{joined(cluster, 32766)}, cluster + ".32766"},
		"two clusters":             {[]*gpu.Fabric{joined(cluster, 1), joined("d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e22", 1)}, ""},
		"two cliques":              {[]*gpu.Fabric{joined(cluster, 1), joined(cluster, 2)}, ""},
		"a fabric within the node": {[]*gpu.Fabric{joined("", 0), joined("", 0)}, ""},
		"one is joining":           {[]*gpu.Fabric{joining, joined(cluster, 1)}, cluster + ".1"},
		"one failed to join":       {[]*gpu.Fabric{joined(cluster, 1), failed}, cluster + ".1"},
		"none has joined":          {[]*gpu.Fabric{joining, failed}, ""},
		"one has no fabric":        {[]*gpu.Fabric{nil, joined(cluster, 1)}, cluster + ".1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := gputest.Node(gputest.H100, len(tc.fabrics))
			for i, f := range tc.fabrics {
				n.GPUs[i].Fabric = f
			}
			got, ok := of(t, facts(n, config.Config{}))["nvidia.com/gpu.clique"]
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("clique %q (set: %v), want %q", got, ok, tc.want)
			}
		})
	}
}

// TestWithoutGPUs checks the labels if the driver lists no GPU.
func TestWithoutGPUs(t *testing.T) {
	got := of(t, label.Facts{Node: gputest.Node(gputest.A100, 0), Machine: "DGX A100"})
	if diff := cmp.Diff(lines("vgpu.present=false"), got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
