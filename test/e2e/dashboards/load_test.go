package dashboards_test

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// wave moves between low and high, with a period in seconds.
func wave(at, period, low, high float64) float64 {
	return low + (high-low)*(1+math.Sin(2*math.Pi*at/period))/2
}

// busy sets what a GPU or, as GPU/INSTANCE, a GPU instance does, in percent.
func busy(device string, percent float64) []string {
	return []string{
		fmt.Sprintf("%s.sm-active=%.0f", device, percent), fmt.Sprintf("%s.tensor-active=%.0f", device, percent*0.6),
		fmt.Sprintf("%s.hmma-active=%.0f", device, percent*0.6), fmt.Sprintf("%s.dram-active=%.0f", device, percent*0.4),
		fmt.Sprintf("%s.utilization-gpu=%.0f", device, percent),
	}
}

// draws sets what a GPU has of power, heat, clocks and memory when it is as busy.
func draws(gpu int, percent, gib float64) []string {
	return []string{
		fmt.Sprintf("%d.power=%.0f", gpu, 75000+percent*6000), fmt.Sprintf("%d.temperature=%.0f", gpu, 32+percent*0.4),
		fmt.Sprintf("%d.memory-temperature=%.0f", gpu, 36+percent*0.45), fmt.Sprintf("%d.clock-sm=%.0f", gpu, 345+percent*16),
		fmt.Sprintf("%d.clock-memory=3201", gpu), fmt.Sprintf("%d.memory-used=%.0f", gpu, gib*(1<<30)),
		fmt.Sprintf("%d.pcie-rx=%.0f", gpu, percent*2.1e8), fmt.Sprintf("%d.pcie-tx=%.0f", gpu, percent*0.9e8),
		fmt.Sprintf("%d.nvlink-rx=%.0f", gpu, percent*1.5e9), fmt.Sprintf("%d.nvlink-tx=%.0f", gpu, percent*1.4e9),
	}
}

// load sets what all GPUs do at a time.
func load(t *testing.T, all []*node, at time.Duration) {
	t.Helper()
	s := at.Seconds()
	train, chat, eval := wave(s, 90, 85, 99), wave(s, 45, 5, 70), wave(s, 60, 20, 60)
	first := append(busy("0", train), draws(0, train, 70)...)
	first = append(append(first, busy("1", chat)...), draws(1, chat, 41)...)
	first = append(append(first, draws(2, 0, 21)...), draws(3, 0, 0)...)
	first = append(first, fmt.Sprintf("1.utilization-decoder=%.0f", chat/3), fmt.Sprintf("1.utilization-encoder=%.0f", chat/5))
	for instance, percent := range map[string]float64{"4/2": eval, "4/4": wave(s, 30, 0, 35)} {
		first = append(first, busy(instance, percent)...)
	}
	all[0].Run(append([]string{"set"}, append(first, draws(4, eval, 12)...)...)...)
	second := append(append(busy("0", train-8), draws(0, train-8, 118)...), append(busy("1", train-4), draws(1, train-4, 112)...)...)
	all[1].Run(append([]string{"set"}, second...)...)
}

// faults makes what panels and alerts of faults show.
func faults(all []*node) {
	all[0].Run("set", "0.clock-limits=power-cap,sw-thermal,hw-thermal", "3.clock-limits=power-brake", "1.pcie-replays=400", "3.remap-uncorrected=2", "3.remap-corrected=5",
		"3.remap-failed=1", "3.remap-pending=1", "3.ecc-volatile-dram-uncorrected=1", "3.ecc-volatile-dram-corrected=7", "1.nvlink-replay-errors=3:25",
		"3.recovery=reset")
	all[0].Run("xid", "1", "31")
	all[0].Run("xid", "3", "48")
	all[0].Run("xid", "3", "48")
	all[1].Run("set", "0.remap-corrected=1")
	all[1].Run("xid", "1", "43")
}
