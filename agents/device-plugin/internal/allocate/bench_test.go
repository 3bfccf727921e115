package allocate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

// dense is the largest node that must be served as fast as any: 16 GPUs of 7
// MIG devices, each advertised 100 times.
func dense() resource.Resource {
	return resource.Resource{Name: resource.GPU, Sharing: config.SharingTimeSlicing, Devices: migDevices(16, 7, 100)}
}

// shuffled returns all ids of a resource as the kubelet has them: in no order.
func shuffled(res resource.Resource) []string {
	ids := free(res)
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a measurement that can be repeated
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// BenchmarkPreferredWhole asks for each number of 16 GPUs, of which no two
// pairs are linked alike.
func BenchmarkPreferredWhole(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a measurement that can be repeated
	a := allocate.New(plainGPUs(16), allocate.Options{Topology: allocate.NewTopology(randomNode(r, 16))})
	ids := shuffled(plainGPUs(16))
	for size := 1; size <= 16; size++ {
		b.Run(fmt.Sprintf("%d-of-16", size), func(b *testing.B) {
			for b.Loop() {
				if _, err := a.Preferred(ids, nil, size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	many := allocate.New(plainGPUs(64), allocate.Options{Topology: allocate.NewTopology(randomNode(r, 64))})
	ids = shuffled(plainGPUs(64))
	b.Run("32-of-64", func(b *testing.B) {
		for b.Loop() {
			if _, err := many.Preferred(ids, nil, 32); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPreferredDense(b *testing.B) {
	res := dense()
	ids := shuffled(res)
	topo := allocate.NewTopology(gputest.Node(gputest.H100, 16))
	for _, policy := range []config.Policy{config.PolicyDistributed, config.PolicyPacked, config.PolicySpread} {
		a := allocate.New(res, allocate.Options{Policy: policy, Topology: topo})
		for _, size := range []int{1, 8, 1000} {
			b.Run(fmt.Sprintf("%s-%d", policy, size), func(b *testing.B) {
				for b.Loop() {
					if _, err := a.Preferred(ids, nil, size); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAllocateDense(b *testing.B) {
	res := dense()
	ids := shuffled(res)
	a := allocate.New(res, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}, PassDeviceSpecs: true})
	for _, size := range []int{1, 100, len(ids)} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				if _, err := a.Allocate(ids[:size], token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	res := dense()
	node := gputest.Node(gputest.H100, 16)
	topo := allocate.NewTopology(node)
	b.Run("allocator", func(b *testing.B) {
		for b.Loop() {
			allocate.New(res, allocate.Options{Topology: topo})
		}
	})
	b.Run("topology", func(b *testing.B) {
		for b.Loop() {
			allocate.NewTopology(node)
		}
	})
}
