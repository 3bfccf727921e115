package label_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/pci"
)

// FuzzAnyNameGivesValidLabels checks, for any texts of hardware and hypervisors, and
// for any layout and config, that Kubernetes accepts all labels, that own knows them,
// and that the order of the GPUs does not matter.
func FuzzAnyNameGivesValidLabels(f *testing.F) {
	f.Add("NVIDIA A100-SXM4-40GB", "DGX A100", "+me", "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21", "580.95.05", "460.16", uint64(1))
	f.Add("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "To Be Filled By O.E.M.", "+me.all", "", "460.16", "r460_00", uint64(2))
	f.Add("显卡", "-_.", "=\n", ".", "..", "\x00", uint64(3))
	f.Add("", "", "", "", "", "", uint64(4))
	f.Fuzz(func(t *testing.T, name, machine, attribute, cluster, driver, vgpu string, seed uint64) {
		if seed > 64 {
			seed %= 64 // 64 kinds of nodes are enough: the texts matter here
		}
		r := rand.New(rand.NewPCG(seed, 0))
		n := odd(r, name, attribute, cluster, driver)
		facts := label.Facts{Node: n, Machine: machine, Config: randomConfig(t, r)}
		for _, g := range n.GPUs {
			facts.PCI = append(facts.PCI, pci.Device{
				BusID: g.PCI.BusID, Class: 0x030000,
				VGPU: pci.VGPU{Known: true, Present: r.IntN(3) > 0, HostDriverVersion: vgpu, HostDriverBranch: vgpu},
			})
		}
		got := of(t, facts)
		reordered := facts
		reordered.Node = shuffled(r, n)
		if diff := cmp.Diff(got, label.Derive(reordered)); diff != "" {
			t.Errorf("the order of the GPUs changes labels (-before +after):\n%s", diff)
		}
	})
}

// odd returns a random node in which some names are replaced by the texts.
func odd(r *rand.Rand, name, attribute, cluster, driver string) *gpu.Node {
	n := randomNode(r)
	n.Driver.Version = driver
	for i := range n.GPUs {
		g := &n.GPUs[i]
		switch r.IntN(4) {
		case 0:
			g.Name = name
		case 1:
			g.Name += name
		}
		if r.IntN(2) == 0 {
			g.Fabric = &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess, ClusterUUID: cluster, CliqueID: 4294967295}
		}
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			if r.IntN(2) == 0 {
				g.MIG.Devices[j].Profile.Attribute = attribute
			}
		}
	}
	return n
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomNode returns a node of up to six GPUs, partitioned in different ways. Some
// of them fail.
func randomNode(r *rand.Rand) *gpu.Node {
	var models []gputest.Model
	for range 1 + r.IntN(6) {
		models = append(models, pick(r, gputest.A100, gputest.H100, gputest.A30, gputest.L4))
	}
	n := gputest.Mixed(models...)
	for i, model := range models {
		layouts := map[gputest.Model][][]string{
			gputest.A100: {nil, gputest.Times(7, "1g.5gb"), gputest.Times(2, "3g.20gb"), gputest.Times(3, "1c.3g.20gb"), {"3g.20gb", "1g.5gb+me"}},
			gputest.H100: {nil, gputest.Times(7, "1g.10gb"), {"4g.40gb", "1g.10gb+me"}},
			gputest.A30:  {nil, gputest.Times(4, "1g.6gb")},
		}[model]
		if len(layouts) > 0 && r.IntN(3) > 0 {
			gputest.Partition(n, i, pick(r, layouts...)...)
		}
		switch r.IntN(10) {
		case 0:
			n.GPUs[i].Fault = lost()
		case 1:
			n.GPUs[i] = dead(i)
		}
	}
	return n
}

func randomConfig(t testing.TB, r *rand.Rand) config.Config {
	t.Helper()
	lines := []string{strategy(pick(r, "none", "single", "mixed"))}
	switch r.IntN(4) {
	case 0:
		lines = append(lines, sharing("timeSlicing", pick(r, "", "renameByDefault: true, "), 1+r.IntN(5), "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"))
	case 1:
		lines = append(lines, sharing("mps", "", 1+r.IntN(5), "nvidia.com/gpu"))
	case 2:
		lines = append(lines, "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3, devices: [1]}, {name: mig-3g.20gb, rename: gpu, replicas: 2}]}}")
	}
	if r.IntN(3) == 0 {
		lines = append(lines, "devices: {exclude: ["+pick(r, `0`, `"*A100*"`, `"1g.*"`)+"]}")
	}
	if r.IntN(3) == 0 {
		lines = append(lines, `resources: {gpus: [{pattern: "*L4", name: l4}], mig: [{pattern: "1g.*", name: small}]}`)
	}
	return load(t, lines...)
}

// shuffled returns the node with its GPUs and MIG devices in another order.
func shuffled(r *rand.Rand, n *gpu.Node) *gpu.Node {
	out := *n
	out.GPUs = nil
	for _, i := range r.Perm(len(n.GPUs)) {
		g := n.GPUs[i]
		if g.MIG != nil {
			m := *g.MIG
			m.Devices = nil
			for _, j := range r.Perm(len(g.MIG.Devices)) {
				m.Devices = append(m.Devices, g.MIG.Devices[j])
			}
			g.MIG = &m
		}
		out.GPUs = append(out.GPUs, g)
	}
	return &out
}

// TestEveryNodeAndConfig checks many random nodes as the fuzz target does.
func TestEveryNodeAndConfig(t *testing.T) {
	single := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, c := randomNode(r), randomConfig(t, r)
		got := of(t, facts(n, c))
		if diff := cmp.Diff(got, of(t, facts(shuffled(r, n), c))); diff != "" {
			t.Fatalf("seed %d: the order of the GPUs changes labels (-before +after):\n%s", seed, diff)
		}
		if _, ok := got["nvidia.com/gpu.slices.gi"]; ok {
			single++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if single < 50 {
		t.Errorf("%d nodes have MIG devices as nvidia.com/gpu: too few for this test to prove anything", single)
	}
}
