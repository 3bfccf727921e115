package label_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// TestSeveralProducts checks all labels of nodes with GPUs of several models.
func TestSeveralProducts(t *testing.T) {
	var b strings.Builder
	add := func(title string, n *gpu.Node, file ...string) {
		b.WriteString("# " + title + "\n" + listing(devices(of(t, facts(n, load(t, file...))))) + "\n")
	}
	add("most GPUs are L4", gputest.Mixed(gputest.A100, gputest.L4, gputest.L4))
	add("as many of both", gputest.Mixed(gputest.A100, gputest.L4))
	divided := gputest.Partition(gputest.Mixed(gputest.A100, gputest.L4, gputest.A100), 0, "3g.20gb", "3g.20gb")
	add("one A100 is divided, all GPUs shared", divided, strategy("mixed"), sharing("timeSlicing", "", 4, "nvidia.com/gpu"))
	add("one A100 is divided, strategy single", divided, strategy("single"))
	golden.Assert(t, b.String(), "several-products.golden")
}

func TestLongNames(t *testing.T) {
	const (
		long  = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition For Special Purposes"
		other = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition For Other Purposes"
	)
	n := gputest.Partition(gputest.Node(gputest.A100, 2), 0, "1g.5gb+me")
	n.GPUs[0].Name, n.GPUs[1].Name = long, other
	for name, tc := range map[string]struct {
		config []string
		want   string
	}{
		"the suffix is kept": {
			config: []string{strategy("mixed"), sharing("timeSlicing", "", 2, "nvidia.com/gpu", "nvidia.com/mig-1g.5gb.me")},
			want: "gpu.product=NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-a0a5fd71-SHARED" +
				" mig-1g.5gb.me.product=NVIDIA-RTX-PRO-6000-Blackwell-Max-92cf159a-MIG-1g.5gb.me-SHARED",
		},
		"no suffix": {
			want: "gpu.product=NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Editio-a0a5fd71",
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, of(t, facts(n, load(t, tc.config...))), tc.want, "")
		})
	}
	products := 0
	for key, value := range of(t, facts(n, config.Config{})) {
		if strings.HasSuffix(key, ".sharing-strategy") && strings.HasPrefix(key, "nvidia.com/gpu.product-") {
			products++
			t.Logf("%s=%s", key, value)
		}
	}
	if products != 2 {
		t.Errorf("%d products, want 2: names with the same beginning must stay different", products)
	}
}

func TestNamesThatAreAlikeAreOneProduct(t *testing.T) {
	n := gputest.Node(gputest.L4, 3)
	n.GPUs[1].Name, n.GPUs[2].Name = "NVIDIA  L4 ", "NVIDIA L4®"
	check(t, of(t, facts(n, config.Config{})), "gpu.product=NVIDIA-L4 gpu.count=3", "gpu.product-NVIDIA-L4.count")
}

func TestNamesThatNoLabelCanHold(t *testing.T) {
	for _, name := range []string{"", "显卡", "--", " . "} {
		n := gputest.Node(gputest.L4, 2)
		n.GPUs[0].Name, n.GPUs[1].Name = name, name
		check(t, of(t, facts(n, config.Config{})), "gpu.product=unknown gpu.count=2 gpu.memory=23034 gpu.replicas=1", "")
	}
}

func lost() *gpu.Fault { return &gpu.Fault{Op: "nvmlDeviceGetHandleByIndex_v2", Reason: "GPU is lost"} }

// dead returns a GPU of which nothing could be read.
func dead(index int) gpu.GPU { return gpu.GPU{Index: index, Minor: -1, NUMANode: -1, Fault: lost()} }

func TestGPUsThatFail(t *testing.T) {
	mig := func(mutate func(n *gpu.Node)) *gpu.Node {
		n := gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"), gputest.Times(2, "3g.20gb"))
		mutate(n)
		return n
	}
	for name, tc := range map[string]struct {
		node   *gpu.Node
		config []string
		same   *gpu.Node // has the same labels of devices, if it is set
		want   string
		absent string
	}{
		"one that fails while the agent runs changes nothing": {
			node: func() *gpu.Node {
				n := gputest.Node(gputest.A100, 4)
				n.GPUs[0].Fault = lost()
				return n
			}(),
			same: gputest.Node(gputest.A100, 4),
		},
		"one that cannot be read leaves the labels of the others": {
			node: func() *gpu.Node {
				n := gputest.Node(gputest.A100, 4)
				n.GPUs[0] = dead(0)
				return n
			}(),
			same: gputest.Node(gputest.A100, 3),
		},
		"one with a known name counts, the others provide the rest": {
			node: func() *gpu.Node {
				n := gputest.Node(gputest.A100, 4)
				n.GPUs[0] = dead(0)
				n.GPUs[0].Name = n.GPUs[1].Name
				return n
			}(),
			same: gputest.Node(gputest.A100, 4),
		},
		"only the name of the only one is known": {
			node: func() *gpu.Node {
				n := gputest.Node(gputest.A100, 1)
				n.GPUs[0] = dead(0)
				n.GPUs[0].Name = "NVIDIA A100-SXM4-40GB"
				return n
			}(),
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB gpu.count=1 gpu.replicas=0 gpu.sharing-strategy=none cuda.driver.major=580",
			absent: "gpu.memory gpu.family gpu.compute.major mig.capable",
		},
		"only the name of the only one of a product is known, and another product supports MIG": {
			node: func() *gpu.Node {
				n := gputest.Mixed(gputest.L4, gputest.A100)
				n.GPUs[0] = dead(0)
				n.GPUs[0].Name = "NVIDIA L4"
				return n
			}(),
			want: "mig.capable=true",
		},
		"the only one fails while the agent runs, and does not support MIG": {
			node: func() *gpu.Node {
				n := gputest.Node(gputest.L4, 1)
				n.GPUs[0].Fault = lost()
				return n
			}(),
			same: gputest.Node(gputest.L4, 1),
			want: "mig.capable=false",
		},
		"none can be read": {
			node:   &gpu.Node{Driver: gpu.Driver{Version: "580.95.05"}, GPUs: []gpu.GPU{dead(0), dead(1)}},
			config: []string{strategy("single")},
			want:   "cuda.driver.major=580 gpu.machine=ProLiant-DL380-Gen10 gpu.mode=unknown mps.capable=false mig.strategy=single",
			absent: "gpu.count gpu.product gpu.replicas gpu.memory gpu.family mig.capable",
		},
		"one that cannot be read is not another product": {
			node: func() *gpu.Node {
				n := gputest.Mixed(gputest.L4, gputest.A100)
				n.GPUs[1] = dead(1)
				return n
			}(),
			want:   "gpu.product=NVIDIA-L4 gpu.count=1",
			absent: "gpu.product-NVIDIA-L4.count",
		},
		"unified memory has no label": {
			node: func() *gpu.Node {
				n := gputest.Node(gputest.L4, 1)
				n.GPUs[0].Name, n.GPUs[0].MemoryBytes, n.GPUs[0].ComputeCapability = "NVIDIA GB10", 0, gpu.Version{Major: 12, Minor: 1}
				return n
			}(),
			want:   "gpu.product=NVIDIA-GB10 gpu.count=1 gpu.replicas=1 gpu.family=blackwell",
			absent: "gpu.memory",
		},
		"a MIG device that fails while the agent runs changes nothing": {
			node:   mig(func(n *gpu.Node) { n.GPUs[0].MIG.Devices[0].Fault = lost() }),
			config: []string{strategy("mixed")},
			same:   mig(func(*gpu.Node) {}),
		},
		"a MIG device with a known profile counts, the others provide the rest": {
			node: mig(func(n *gpu.Node) {
				d := &n.GPUs[0].MIG.Devices[0]
				*d = gpu.MIGDevice{Index: d.Index, UUID: d.UUID, Profile: d.Profile, Fault: lost()}
			}),
			config: []string{strategy("mixed")},
			same:   mig(func(*gpu.Node) {}),
		},
		"a MIG device without a profile does not count": {
			node: mig(func(n *gpu.Node) {
				n.GPUs[0].MIG.Devices[0] = gpu.MIGDevice{Index: 0, Fault: lost()}
			}),
			config: []string{strategy("mixed")},
			want:   "mig-3g.20gb.count=3 mig-3g.20gb.memory=19968 mig-3g.20gb.slices.gi=3",
		},
		"only the profiles of the MIG devices are known": {
			node: mig(func(n *gpu.Node) {
				for _, g := range n.GPUs {
					for i, d := range g.MIG.Devices {
						g.MIG.Devices[i] = gpu.MIGDevice{Index: i, UUID: d.UUID, Profile: d.Profile, Fault: lost()}
					}
				}
			}),
			config: []string{strategy("single")},
			want:   "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb gpu.count=4 gpu.replicas=1 gpu.family=ampere",
			absent: "gpu.memory gpu.multiprocessors gpu.slices.gi gpu.engines.copy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, tc.config...)
			got := of(t, facts(tc.node, c))
			check(t, got, tc.want, tc.absent)
			if tc.same == nil {
				return
			}
			if diff := cmp.Diff(devices(of(t, facts(tc.same, c))), devices(got)); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
