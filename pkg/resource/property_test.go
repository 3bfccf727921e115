package resource_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// TestEveryNodeAndConfig checks for thousands of nodes and configs what a Set
// promises.
func TestEveryNodeAndConfig(t *testing.T) {
	shared, renamed, left := 0, 0, 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		n, v, c := randomNode(r), health.View{}, randomConfig(r)
		if len(n.GPUs) > 0 && r.IntN(2) == 0 {
			v.GPUs = map[gpu.UUID]health.Status{n.GPUs[r.IntN(len(n.GPUs))].UUID: {Reason: "xid 79"}}
		}
		set := resource.Derive(n, v, c)
		if !reflect.DeepEqual(set, resource.Derive(n, v, c)) {
			t.Fatalf("seed %d: two sets of one node differ", seed)
		}
		if err := check(n, c, set); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, listing(set))
		}
		// A set is as good for a node that is listed in another order.
		turned := *n
		turned.GPUs = slices.Clone(n.GPUs)
		slices.Reverse(turned.GPUs)
		for i := range turned.GPUs {
			if m := turned.GPUs[i].MIG; m != nil {
				devices := slices.Clone(m.Devices)
				slices.Reverse(devices)
				turned.GPUs[i].MIG = &gpu.MIG{Enabled: m.Enabled, Devices: devices}
			}
		}
		if got := listing(resource.Derive(&turned, v, c)); got != listing(set) {
			t.Fatalf("seed %d: the order of the devices changes\n%s into\n%s", seed, listing(set), got)
		}
		left += len(set.Unlisted)
		for _, res := range set.Resources {
			if res.Sharing != "" {
				shared++
			}
			if res.Name == "nvidia.com/x" || res.Name == "nvidia.com/y" {
				renamed++
			}
		}
	}
	if shared < 300 || renamed < 300 || left < 300 {
		t.Errorf("of all resources %d are shared and %d renamed, and %d devices are left out: too few to prove anything", shared, renamed, left)
	}
}

// check returns what of the promises the set does not keep.
func check(n *gpu.Node, c config.Config, set resource.Set) error {
	places, ids, sockets := map[string]int{}, map[string]bool{}, map[string]bool{}
	for i, r := range set.Resources {
		if i > 0 && set.Resources[i-1].Name >= r.Name {
			return fmt.Errorf("%s comes after %s", r.Name, set.Resources[i-1].Name)
		}
		if len(r.Devices) == 0 {
			return fmt.Errorf("%s has no device", r.Name)
		}
		if sockets[r.Name] {
			return fmt.Errorf("%s is there twice", r.Name)
		}
		sockets[r.Name] = true
		if !slices.IsSortedFunc(r.Devices, func(a, b resource.Device) int { return compareIndex(a.Index, b.Index) }) {
			return fmt.Errorf("the devices of %s are not ordered", r.Name)
		}
		replicated := slices.ContainsFunc(r.Devices, func(d resource.Device) bool { return d.Replicas > 1 })
		shared := replicated || slices.ContainsFunc(r.Devices, func(d resource.Device) bool { return d.MPS })
		if shared != (r.Sharing != "") || r.FailRequestsGreaterThanOne && !replicated {
			return fmt.Errorf("%s is shared: %v, and reported as %q", r.Name, shared, r.Sharing)
		}
		for _, d := range r.Devices {
			places[d.Index]++
			for k := range d.Replicas {
				if ids[d.ID(k)] {
					return fmt.Errorf("two devices are %s", d.ID(k))
				}
				ids[d.ID(k)] = true
			}
			if d.Replicas < 1 || d.Health.Healthy && len(d.Paths) == 0 {
				return fmt.Errorf("device %s has %d replicas and the nodes %q", d.Index, d.Replicas, d.Paths)
			}
		}
	}
	if !slices.IsSortedFunc(set.Unlisted, func(a, b resource.Unlisted) int { return compareIndex(a.Index, b.Index) }) {
		return fmt.Errorf("what is left out is not ordered")
	}
	for _, u := range set.Unlisted {
		places[u.Index]++
		if kinds := []cause.Code{cause.DeviceFault, cause.DeviceMIG, cause.DeviceConfig, cause.DeviceExcluded}; u.Reason == "" || !slices.Contains(kinds, u.Kind) {
			return fmt.Errorf("there is no reason why %s is left out", u.Index)
		}
	}
	want := units(n, c.MIGStrategy)
	for _, index := range want {
		if places[index] != 1 {
			return fmt.Errorf("%s is in %d places of the set", index, places[index])
		}
	}
	if len(places) != len(want) {
		return fmt.Errorf("the set has %d devices and the node %d", len(places), len(want))
	}
	return equalUnderSingle(n, c, set)
}

// equalUnderSingle checks that nvidia.com/gpu has devices of one kind where
// nothing else is asked for.
func equalUnderSingle(n *gpu.Node, c config.Config, set resource.Set) error {
	if c.MIGStrategy != config.MIGStrategySingle || len(c.Sharing.Shares) > 0 {
		return nil
	}
	kinds := map[gpu.UUID]string{}
	for _, g := range n.GPUs {
		kinds[g.UUID] = "whole"
		if g.MIG != nil {
			for _, m := range g.MIG.Devices {
				kinds[m.UUID] = g.Name + m.Profile.String()
			}
		}
	}
	for _, r := range set.Resources {
		for _, d := range r.Devices {
			if r.Name == "nvidia.com/gpu" && kinds[d.UUID] != kinds[r.Devices[0].UUID] {
				return fmt.Errorf("%s has %s and %s", r.Name, kinds[d.UUID], kinds[r.Devices[0].UUID])
			}
		}
	}
	return nil
}

// units returns the index of everything that is to be in a set.
func units(n *gpu.Node, s config.MIGStrategy) []string {
	var out []string
	for _, g := range n.GPUs {
		if s == config.MIGStrategyNone || g.MIG == nil || !g.MIG.Enabled || len(g.MIG.Devices) == 0 {
			out = append(out, fmt.Sprint(g.Index))
			continue
		}
		for _, m := range g.MIG.Devices {
			out = append(out, fmt.Sprintf("%d:%d", g.Index, m.Index))
		}
	}
	return out
}

func compareIndex(a, b string) int {
	read := func(s string) (g, m int) {
		m = -1
		if n, _ := fmt.Sscanf(s, "%d:%d", &g, &m); n == 0 {
			panic("no index: " + s)
		}
		return g, m
	}
	ag, am := read(a)
	bg, bm := read(b)
	return cmp.Or(cmp.Compare(ag, bg), cmp.Compare(am, bm))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomNode(r *rand.Rand) *gpu.Node {
	var models []gputest.Model
	for range r.IntN(5) {
		models = append(models, pick(r, gputest.A100, gputest.A10080, gputest.H100, gputest.A30, gputest.L4))
	}
	n := gputest.Mixed(models...)
	for i, g := range n.GPUs {
		if g.MIG != nil && r.IntN(3) > 0 {
			gputest.Partition(n, i, randomLayout(r, models[i])...)
		}
	}
	for i := range n.GPUs {
		g, fault := &n.GPUs[i], &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
		switch r.IntN(12) {
		case 0:
			g.Fault = fault
		case 1:
			*g = gpu.GPU{Index: i, Minor: -1, NUMANode: -1, Fault: fault}
		case 2:
			if g.MIG != nil && len(g.MIG.Devices) > 0 {
				m := &g.MIG.Devices[r.IntN(len(g.MIG.Devices))]
				*m = gpu.MIGDevice{Index: m.Index, UUID: pick(r, m.UUID, ""), Profile: pick(r, m.Profile, gpu.Profile{}), Fault: fault}
			}
		}
	}
	return n
}

func randomLayout(r *rand.Rand, model gputest.Model) []string {
	switch model {
	case gputest.A30:
		return pick(r, nil, gputest.Times(4, "1g.6gb"), []string{"2g.12gb", "1g.6gb"})
	case gputest.A100:
		return pick(r, nil, gputest.Times(7, "1g.5gb"), gputest.Times(2, "3g.20gb"), gputest.Times(3, "1c.3g.20gb"), balanced())
	default:
		return pick(r, nil, gputest.Times(7, "1g.10gb"), gputest.Times(2, "3g.40gb"), gputest.Times(1, "7g.80gb"), []string{"3g.40gb", "2g.20gb", "1g.10gb+me"})
	}
}

func randomConfig(r *rand.Rand) config.Config {
	entry := func() string {
		return pick(r, "0", "1", "9", "0:0", "1:3", id+"2", "MIG-00000000-0000-4000-8000-000000010000", "MIG-"+id+"1/2/0", "*A100*", "1g.*", "80GB", "*")
	}
	c := config.Config{
		MIGStrategy: pick(r, config.MIGStrategyNone, config.MIGStrategySingle, config.MIGStrategyMixed),
		Sharing: config.Sharing{
			Strategy:                   pick(r, config.SharingTimeSlicing, config.SharingMPS),
			FailRequestsGreaterThanOne: r.IntN(2) == 0,
		},
	}
	for range r.IntN(4) {
		c.Sharing.Shares = append(c.Sharing.Shares, config.Share{
			Name:     pick(r, "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.40gb", "nvidia.com/x"),
			Rename:   pick(r, "nvidia.com/gpu", "nvidia.com/x", "nvidia.com/y"),
			Replicas: pick(r, 1, 2, 17, config.AutoReplicas),
			Devices: pick(r, config.Selection{}, config.Selection{Count: 1 + r.IntN(3)},
				config.Selection{Refs: []config.Ref{config.Ref(entry()), config.Ref(entry())}}),
		})
	}
	if r.IntN(3) == 0 {
		c.Filter.Exclude = append(c.Filter.Exclude, entry())
	}
	if r.IntN(4) == 0 {
		c.Filter.Include = append(c.Filter.Include, entry(), entry())
	}
	if r.IntN(3) == 0 {
		c.Resources.GPUs = []config.Pattern{{Pattern: entry(), Name: "nvidia.com/x"}}
		c.Resources.MIG = []config.Pattern{{Pattern: entry(), Name: pick(r, "nvidia.com/x", "nvidia.com/gpu")}}
	}
	return c
}
