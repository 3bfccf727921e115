package main

import (
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/healthtest"
)

// Each class of faults has the same verdict in all agents, also after a restart. The node has one GPU, so
// that GPUReady depends on it alone.
func TestFaultClasses(t *testing.T) {
	t.Parallel()
	const good, bad = `gpu_ready{reason="GPUsReady"} 1` + "\n", `gpu_ready{reason="AllGPUsFaulty"} 0` + "\n"
	for name, c := range healthtest.Cases() {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=1", healthtest.Model)
			file, run := filepath.Join(t.TempDir(), "gfd"), t.TempDir()
			p := startWith(t, n, file, "--ready-chain", "driver", "--run-root", run)
			p.metric(good)
			c.Apply(n)
			if !c.Event() {
				p.Hangup(1)
			}
			want := good
			if c.Severity == health.Failure {
				want = bad
			}
			p.metric(want)
			p.Stop()
			p = startWith(t, n, file, "--ready-chain", "driver", "--run-root", run)
			p.metric(want)
		})
	}
}
