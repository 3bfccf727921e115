package allocate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// sharedCase is a random request for devices that are shared or parts of GPUs.
type sharedCase struct {
	res             resource.Resource
	available, must []string
	size            int
}

func randomShared(r *rand.Rand) sharedCase {
	var c sharedCase
	for g := range 1 + r.IntN(20) {
		parts := 1
		if r.IntN(2) == 0 {
			parts += r.IntN(7)
		}
		for p := range parts {
			c.res.Devices = append(c.res.Devices, resource.Device{
				UUID: gpu.UUID(fmt.Sprintf("GPU-%02d-%d", g, p)), GPU: g, Replicas: 1 + r.IntN(4),
			})
		}
	}
	taken := r.IntN(4)
	for _, d := range c.res.Devices {
		for n := range d.Replicas {
			if r.IntN(4) >= taken {
				c.available = append(c.available, d.ID(n))
				if r.IntN(8) == 0 {
					c.must = append(c.must, d.ID(n))
				}
			}
		}
	}
	r.Shuffle(len(c.available), func(i, j int) { c.available[i], c.available[j] = c.available[j], c.available[i] })
	c.size = len(c.must) + r.IntN(len(c.available)+3)
	return c
}

// load is what is known of a GPU before and after a request.
type load struct{ used, free, must, picked int }

// loads returns the load of each GPU, by its index.
func (c sharedCase) loads(t *testing.T, got []string) map[int]*load {
	t.Helper()
	out := map[int]*load{}
	for _, d := range c.res.Devices {
		if out[d.GPU] == nil {
			out[d.GPU] = &load{}
		}
		l := out[d.GPU]
		for n := range d.Replicas {
			switch id := d.ID(n); {
			case !slices.Contains(c.available, id):
				l.used++
			case slices.Contains(c.must, id):
				l.must++
			case slices.Contains(got, id):
				l.picked++
			default:
				l.free++
			}
		}
	}
	return out
}

func TestPreferredOfSharedDevicesKeepsToThePolicy(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test that can be repeated
		c := randomShared(r)
		topo := allocate.NewTopology(randomNode(r, 20))
		for policy, check := range map[config.Policy]func(map[int]*load) string{
			config.PolicyDistributed: checkDistributed,
			config.PolicyPacked:      checkPacked,
			config.PolicySpread:      checkSpread,
		} {
			a := allocate.New(c.res, allocate.Options{Policy: policy, Topology: topo})
			got, err := a.Preferred(c.available, c.must, c.size)
			if err != nil {
				t.Fatal(err)
			}
			checkContract(t, c.available, c.must, c.size, got)
			if wrong := check(c.loads(t, got)); wrong != "" {
				t.Fatalf("seed %d, %s: %s\n%d of %v with %v: %v", seed, policy, wrong, c.size, c.available, c.must, got)
			}
		}
	}
}

// checkContract checks what holds of any answer.
func checkContract(t *testing.T, available, must []string, size int, got []string) {
	t.Helper()
	listed := map[string]bool{}
	for _, id := range available {
		listed[id] = true
	}
	if want := min(size, len(listed)); len(got) != want {
		t.Fatalf("%d devices, want %d", len(got), want)
	}
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] || !listed[id] {
			t.Fatalf("%q is twice in the answer, or was not available", id)
		}
		seen[id] = true
	}
	for _, id := range must {
		if !seen[id] {
			t.Fatalf("%q must be included, and is not", id)
		}
	}
}

// checkDistributed: nobody is served by a GPU while another serves fewer.
func checkDistributed(loads map[int]*load) string {
	for g, l := range loads {
		for h, m := range loads {
			if l.picked > 0 && m.free > 0 && l.used+l.must+l.picked-1 > m.used+m.must+m.picked {
				return fmt.Sprintf("GPU %d was taken, while GPU %d was used less", g, h)
			}
		}
	}
	return ""
}

// checkPacked: all GPUs but one are used up, and none that is used more is left.
func checkPacked(loads map[int]*load) string {
	open := 0
	for g, l := range loads {
		if l.picked > 0 && l.free > 0 {
			open++
		}
		for h, m := range loads {
			if l.picked > 0 && m.picked == 0 && m.free > 0 && m.used+m.must > l.used+l.must {
				return fmt.Sprintf("GPU %d was taken, while GPU %d was used more", g, h)
			}
		}
	}
	if open > 1 {
		return fmt.Sprintf("%d GPUs were begun", open)
	}
	return ""
}

// checkSpread: no GPU is taken twice while there is another, and of those that
// are taken first none is used more than one that is not.
func checkSpread(loads map[int]*load) string {
	for g, l := range loads {
		for h, m := range loads {
			untouched := m.must+m.picked == 0 && m.free > 0
			if l.picked > 0 && l.must+l.picked > 1 && untouched {
				return fmt.Sprintf("GPU %d was taken again, while GPU %d was not taken", g, h)
			}
			if l.picked > 0 && untouched && l.used > m.used {
				return fmt.Sprintf("GPU %d was taken, while GPU %d was used less", g, h)
			}
		}
	}
	return ""
}
