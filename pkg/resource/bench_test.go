package resource_test

import (
	"testing"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// BenchmarkDerive is of the largest node that there is, with everything in the
// config that costs.
func BenchmarkDerive(b *testing.B) {
	var layouts [][]string
	for range 16 {
		layouts = append(layouts, gputest.Times(7, "1g.10gb"))
	}
	n := gputest.Divided(gputest.H100, 16, layouts...)
	c := config.Config{
		MIGStrategy: config.MIGStrategyMixed,
		Resources:   config.Resources{MIG: []config.Pattern{{Pattern: "3g.*", Name: "nvidia.com/half"}, {Pattern: "1g.*", Name: "nvidia.com/small"}}},
		Filter:      config.Filter{Exclude: []string{"*L4*", "MIG-none"}},
		Sharing:     config.Sharing{Strategy: config.SharingTimeSlicing},
	}
	for _, g := range n.GPUs {
		for _, m := range g.MIG.Devices {
			c.Sharing.Shares = append(c.Sharing.Shares, config.Share{
				Name: "nvidia.com/small", Rename: "nvidia.com/small", Replicas: 100,
				Devices: config.Selection{Refs: []config.Ref{config.Ref(m.UUID)}},
			})
		}
	}
	for name, shares := range map[string][]config.Share{
		"one share":            {{Name: "nvidia.com/small", Rename: "nvidia.com/small", Replicas: 100}},
		"a share for a device": c.Sharing.Shares,
	} {
		b.Run(name, func(b *testing.B) {
			c := c
			c.Sharing.Shares = shares
			if set := resource.Derive(n, health.View{}, c); len(set.Resources) != 1 || len(set.Resources[0].Devices) != 112 {
				b.Fatal(short(set))
			}
			b.ReportAllocs()
			for b.Loop() {
				resource.Derive(n, health.View{}, c)
			}
		})
	}
}
