package load_test

import (
	"os/exec"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
	"outrigger.dev/sim/internal/load/loadtest"
)

// BenchmarkApply measures a write of the values of a node, which a Follower does every 5 s.
func BenchmarkApply(b *testing.B) {
	for name, high := range map[string]uint32{"nothing": 0, "constant": 60, "range": 90} {
		b.Run(name, func(b *testing.B) {
			n := loadtest.New(b, "h100-80", 8)
			sleep := exec.CommandContext(b.Context(), "sleep", "600")
			assert.NilError(b, sleep.Start())
			var loads []load.Load
			for i := range 8 {
				if high > 0 {
					loads = append(loads, load.Load{
						Owner: "a/a", Seed: "u", Device: n.GPU(i).UUID, PIDs: []int{sleep.Process.Pid}, Use: load.Use{Utilization: scenario.Range{Low: 60, High: high}, Memory: 20 << 30},
					})
				}
			}
			now := time.Now()
			for b.Loop() {
				now = now.Add(5 * time.Second)
				n.Show(now.Unix(), loads...)
			}
		})
	}
}
