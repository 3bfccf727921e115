package label_test

import (
	"strconv"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// TestAdvertised checks configs that NVIDIA's feature discovery has no labels for,
// because its device plugin cannot advertise them.
func TestAdvertised(t *testing.T) {
	halves := []string{"3g.20gb", "3g.20gb"}
	for name, tc := range map[string]struct {
		node   *gpu.Node
		config []string
		want   string
		absent string
	}{
		"some GPUs are shared: a container may have to share": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3, devices: [2]}, {name: gpu, replicas: 5, devices: [1]}]}}"},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED gpu.count=4 gpu.replicas=5 gpu.sharing-strategy=time-slicing",
		},
		"some GPUs are shared under another name: nvidia.com/gpu is whole": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{"sharing: {timeSlicing: {resources: [{name: gpu, rename: gpu.shared, replicas: 3, devices: 3}]}}"},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=4 gpu.replicas=1 gpu.sharing-strategy=none",
		},
		"all are shared under other names": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{"sharing: {timeSlicing: {resources: [{name: gpu, rename: few, replicas: 3, devices: 1}, {name: gpu, rename: many, replicas: 9}]}}"},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=9 gpu.sharing-strategy=time-slicing",
		},
		"a new name alone is not sharing": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{"sharing: {timeSlicing: {resources: [{name: gpu, rename: whole, replicas: 1}]}}"},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=1 gpu.sharing-strategy=none",
		},
		"a name of a pattern, shared: the name does not show it": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{`resources: {gpus: [{pattern: "*A100*", name: a100}]}`, sharing("timeSlicing", "", 4, "a100")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-SHARED gpu.replicas=4 gpu.sharing-strategy=time-slicing",
		},
		"a name of a pattern, shared under another one: the name shows it": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{`resources: {gpus: [{pattern: "*A100*", name: a100}]}`, sharing("timeSlicing", "renameByDefault: true, ", 4, "a100")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=4 gpu.sharing-strategy=time-slicing",
		},
		"some GPUs have a name of a pattern: nvidia.com/gpu takes precedence": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{`resources: {gpus: [{pattern: "0000:07:*", name: first}]}`, sharing("timeSlicing", "", 4, "first")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=1 gpu.sharing-strategy=none",
		},
		"an excluded GPU counts": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{"devices: {exclude: [0]}"},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=4 gpu.replicas=1",
		},
		"all are excluded": {
			node:   gputest.Divided(gputest.A100, 4),
			config: []string{`devices: {exclude: ["*"]}`},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=4 gpu.replicas=0 gpu.sharing-strategy=none",
		},
		"a product with all GPUs excluded is not the subject": {
			node:   gputest.Mixed(gputest.A30, gputest.A30, gputest.L4),
			config: []string{`devices: {exclude: ["*A30"]}`},
			want:   "gpu.product=NVIDIA-L4 gpu.count=1 gpu.replicas=1 gpu.product-NVIDIA-A30.count=2 gpu.product-NVIDIA-A30.replicas=0",
		},
		"a product with all GPUs in MIG mode is not the subject": {
			node:   gputest.Partition(gputest.Partition(gputest.Mixed(gputest.A30, gputest.A30, gputest.L4), 0, "4g.24gb"), 1, "4g.24gb"),
			config: []string{strategy("mixed")},
			want:   "gpu.product=NVIDIA-L4 gpu.count=1 gpu.product-NVIDIA-A30.count=2 gpu.product-NVIDIA-A30.replicas=0 mig-4g.24gb.count=2",
		},
		"MPS and a GPU in MIG mode: a daemon has to run for the others": {
			node:   gputest.Divided(gputest.A100, 2, gputest.Times(7, "1g.5gb")),
			config: []string{strategy("mixed"), sharing("mps", "", 4, "nvidia.com/gpu")},
			want:   "mps.capable=true gpu.product=NVIDIA-A100-SXM4-40GB-SHARED gpu.replicas=4 gpu.sharing-strategy=mps mig-1g.5gb.replicas=1 mig-1g.5gb.sharing-strategy=none",
		},
		"MPS where all GPUs are in MIG mode": {
			node:   gputest.Divided(gputest.A100, 1, gputest.Times(7, "1g.5gb")),
			config: []string{strategy("mixed"), sharing("mps", "", 4, "nvidia.com/gpu")},
			want:   "mps.capable=false gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=0 gpu.sharing-strategy=none",
		},
		"MPS with too many replicas": {
			node:   gputest.Divided(gputest.A100, 1),
			config: []string{sharing("mps", "", 49, "nvidia.com/gpu")},
			want:   "mps.capable=false gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=0 gpu.sharing-strategy=none",
		},
		"more replicas than the kubelet accepts in a list: those that are advertised": {
			node:   gputest.Divided(gputest.A100, 16),
			config: []string{sharing("timeSlicing", "", 90_000, "nvidia.com/gpu")},
			want:   "gpu.replicas=3942 gpu.sharing-strategy=time-slicing",
		},
		"MPS with one client of each GPU: a daemon has to run": {
			node:   gputest.Divided(gputest.A100, 1),
			config: []string{sharing("mps", "", 1, "nvidia.com/gpu")},
			want:   "mps.capable=true gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=1 gpu.sharing-strategy=mps",
		},
		"single, a GPU is whole: the class that is advertised": {
			node:   gputest.Divided(gputest.A100, 3, halves, halves),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=4 gpu.replicas=1 gpu.memory=19968 mig.strategy=single",
		},
		"single, most GPUs are whole": {
			node:   gputest.Divided(gputest.A100, 3, halves),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=2 gpu.replicas=1 gpu.memory=40960 mig.strategy=single",
			absent: "gpu.slices.gi gpu.multiprocessors",
		},
		"single, a GPU in MIG mode has no devices": {
			node:   gputest.Divided(gputest.A100, 2, halves, nil),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=2 gpu.replicas=1",
		},
		"single, a GPU in MIG mode has no devices and another is whole": {
			node:   gputest.Divided(gputest.A100, 2, nil),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=1 gpu.memory=40960",
		},
		"single, a GPU is partitioned, one is whole and one has no devices": {
			node:   gputest.Divided(gputest.A100, 3, gputest.Times(7, "1g.5gb"), nil),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=1 gpu.memory=40960",
			absent: "gpu.slices.gi",
		},
		"single, the GPUs are partitioned differently": {
			node:   gputest.Divided(gputest.A100, 2, gputest.Times(7, "1g.5gb"), halves),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=2 gpu.replicas=1 gpu.memory=19968",
		},
		"single, one profile on two products": {
			node:   gputest.Partition(gputest.Partition(gputest.Mixed(gputest.A10080, gputest.H100), 0, gputest.Times(2, "3g.40gb")...), 1, gputest.Times(2, "3g.40gb")...),
			config: []string{strategy("single")},
			want: "gpu.product=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb gpu.count=2 gpu.replicas=1 gpu.memory=40448 gpu.family=hopper" +
				" gpu.product-NVIDIA-A100-SXM4-80GB.count=1 gpu.product-NVIDIA-H100-80GB-HBM3.replicas=0",
		},
		"single, a MIG device is excluded": {
			node:   gputest.Divided(gputest.A100, 1, halves),
			config: []string{strategy("single"), `devices: {exclude: ["0:1"]}`},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=2 gpu.replicas=1",
		},
		"single, all are excluded": {
			node:   gputest.Divided(gputest.A100, 1, halves),
			config: []string{strategy("single"), `devices: {exclude: ["*"]}`},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=2 gpu.replicas=0 gpu.sharing-strategy=none",
		},
		"single, the profiles have names of patterns": {
			node:   gputest.Divided(gputest.A100, 1, []string{"3g.20gb", "1g.5gb", "1g.5gb"}),
			config: []string{strategy("single"), `resources: {mig: [{pattern: "1g.*", name: small}, {pattern: "*", name: large}]}`},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb gpu.count=2 gpu.replicas=1",
		},
		"single, one profile has a name of a pattern": {
			node:   gputest.Divided(gputest.A100, 1, []string{"3g.20gb", "1g.5gb", "1g.5gb"}),
			config: []string{strategy("single"), `resources: {mig: [{pattern: "1g.*", name: small}]}`},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=1 gpu.replicas=1",
		},
		"mixed, one profile on two products": {
			node:   gputest.Partition(gputest.Partition(gputest.Mixed(gputest.A10080, gputest.H100), 0, "3g.40gb"), 1, gputest.Times(2, "3g.40gb")...),
			config: []string{strategy("mixed")},
			want:   "mig-3g.40gb.product=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb mig-3g.40gb.count=3 mig-3g.40gb.memory=40448 mig-3g.40gb.multiprocessors=60",
		},
		"mixed, some devices of a profile are shared": {
			node:   gputest.Divided(gputest.A100, 1, halves),
			config: []string{strategy("mixed"), "sharing: {timeSlicing: {resources: [{name: mig-3g.20gb, replicas: 2, devices: ['0:1']}]}}"},
			want:   "mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED mig-3g.20gb.replicas=2 mig-3g.20gb.sharing-strategy=time-slicing",
		},
		"mixed, the devices of a profile have a name of a pattern": {
			node:   gputest.Divided(gputest.A100, 1, halves),
			config: []string{strategy("mixed"), `resources: {mig: [{pattern: "3g.*", name: half}]}`, sharing("timeSlicing", "", 2, "half")},
			want:   "mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED mig-3g.20gb.count=2 mig-3g.20gb.replicas=2 gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=0",
		},
		"mixed, all MIG devices of a profile are excluded": {
			node:   gputest.Divided(gputest.A100, 1, halves),
			config: []string{strategy("mixed"), `devices: {exclude: ["3g.*"]}`},
			want:   "mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb mig-3g.20gb.count=2 mig-3g.20gb.replicas=0 mig-3g.20gb.sharing-strategy=none",
		},
		"none has no labels of MIG devices": {
			node:   gputest.Divided(gputest.A100, 1, halves),
			config: nil,
			absent: "mig.strategy mig-3g.20gb.count gpu.slices.gi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, of(t, facts(tc.node, load(t, tc.config...))), tc.want, tc.absent)
		})
	}
}

// TestSingleCountsWhatIsAdvertised checks that count and replicas of nvidia.com/gpu are
// what the device plugin advertises, however the GPUs of a node are partitioned.
func TestSingleCountsWhatIsAdvertised(t *testing.T) {
	layouts := [][]string{nil, {}, gputest.Times(7, "1g.5gb"), gputest.Times(2, "3g.20gb"), {"3g.20gb", "1g.5gb+me"}}
	c := load(t, strategy("single"))
	for i := range len(layouts) * len(layouts) * len(layouts) {
		n := gputest.Node(gputest.A100, 3)
		for g, at := range []int{i % 5, i / 5 % 5, i / 25} {
			if at > 0 { // otherwise it is whole
				gputest.Partition(n, g, layouts[at]...)
			}
		}
		want := 0
		for _, r := range resource.Derive(n, health.View{}, c).Resources {
			want += len(r.Devices)
		}
		labels := of(t, facts(n, c))
		count, err := strconv.Atoi(labels["nvidia.com/gpu.count"])
		if replicas := labels["nvidia.com/gpu.replicas"]; err != nil || count != want || want > 0 && replicas != "1" {
			t.Errorf("layout %d: count %d of %s replicas (%s), %v; %d devices are advertised",
				i, count, replicas, labels["nvidia.com/gpu.product"], err, want)
		}
	}
}

// TestResourceConfig checks what the sharing fork of NVIDIA's device plugin can
// advertise and has no labels for.
func TestResourceConfig(t *testing.T) {
	for value, tc := range map[string]struct {
		node *gpu.Node
		want string
	}{
		"gpu:gpu:4":       {gputest.Divided(gputest.L4, 2), "gpu.product=NVIDIA-L4-SHARED gpu.replicas=4 gpu.sharing-strategy=time-slicing"},
		"gpu:sharedgpu:4": {gputest.Divided(gputest.L4, 2), "gpu.product=NVIDIA-L4 gpu.replicas=4 gpu.sharing-strategy=time-slicing"},
		// One replica per 1000 MiB.
		"gpu:gpu-mem-gb:-1": {gputest.Divided(gputest.L4, 2), "gpu.product=NVIDIA-L4 gpu.replicas=23 gpu.memory=23034"},
		"mig-3g.20gb:small:2": {
			gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")),
			"mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb mig-3g.20gb.count=2 mig-3g.20gb.replicas=2 gpu.product=NVIDIA-A100-SXM4-40GB gpu.replicas=0",
		},
		// The MIG devices are nvidia.com/gpu, as with strategy single.
		"mig-3g.20gb:gpu:1": {
			gputest.Divided(gputest.A100, 1, []string{"3g.20gb", "1g.5gb", "1g.5gb"}),
			"gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=1 gpu.replicas=1 gpu.memory=19968 mig-3g.20gb.count=1 mig-3g.20gb.replicas=1 mig-1g.5gb.count=2 mig.strategy=mixed",
		},
		"mig-3g.20gb:gpu:2": {
			gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")),
			"gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED gpu.count=2 gpu.replicas=2 mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb mig-3g.20gb.replicas=2",
		},
		// If there are whole GPUs, the labels describe those.
		"mig-3g.20gb:gpu": {
			gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb")),
			"gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=2 gpu.replicas=1 gpu.memory=40960 mig-3g.20gb.count=2 mig-3g.20gb.replicas=1",
		},
	} {
		t.Run(value, func(t *testing.T) {
			c, err := config.Load(config.Explicit{"resource-config": {value}, "mig-strategy": {"mixed"}}, nil, "")
			assert.NilError(t, err)
			check(t, of(t, facts(tc.node, c)), tc.want, "")
		})
	}
}
