package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/healthtest"
)

// Each class of faults has the same verdict in all agents, also after a restart.
func TestFaultClasses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(file, []byte("DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\n"), 0o600))
	levels := map[health.Severity]string{health.Ignored: "0", health.Warning: "10", health.Failure: "20"}
	for name, c := range healthtest.Cases() {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=2", healthtest.Model)
			p := start(t, n, "--collectors="+file)
			p.worst(`gpu="0"`, "0")
			c.Apply(n)
			if !c.Event() {
				p.Signal(syscall.SIGHUP)
			}
			p.worst(`gpu="0"`, levels[c.Severity])
			p.worst(`gpu="1"`, "0")
			p.Stop()
			// A GPU that did not answer when the exporter started has no metrics.
			if name != "a GPU that is lost" && name != "a GPU that fell off the bus" {
				p = start(t, n, "--collectors="+file, "--run-root="+p.run)
				p.worst(`gpu="0"`, levels[c.Severity])
			}
		})
	}
}

// The rules that the device plugin publishes on the node count here too.
func TestRulesOfTheDevicePlugin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(file, []byte("DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\n"), 0o600))
	n := simtest.New(t, "--gpus=1", healthtest.Model)
	n.Run("set", "0.remap-pending=1")
	p := start(t, n, "--collectors="+file)
	p.worst(`gpu="0"`, "20")
	n.Run("xid", "0", "61") // the plugin's quiet window ends it
	c := config.Default()
	c.HealthChecks.Quiet = time.Millisecond
	c.Health = config.Health{health.RowRemapPending: health.Warning}
	agenttest.Run(t, gpuconfig.NewPublisher(contract.Dir{Root: p.run}, "device-plugin", c, slog.New(slog.DiscardHandler)).Run)
	p.worst(`gpu="0"`, "10")
}

// SIGHUP forgets XIDs, as in the other agents, also after a restart.
func TestSIGHUPForgetsXIDs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(file, []byte("DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\n"), 0o600))
	n := simtest.New(t, "--gpus=1", healthtest.Model)
	p := start(t, n, "--collectors="+file)
	p.worst(`gpu="0"`, "0")
	n.Run("xid", "0", "61")
	p.worst(`gpu="0"`, "20")
	p.Signal(syscall.SIGHUP)
	p.worst(`gpu="0"`, "0")
	p.Stop()
	p = start(t, n, "--collectors="+file, "--run-root="+p.run)
	p.worst(`gpu="0"`, "0")
}

// A load of the driver while no agent runs ends an XID, although the driver reports no recovery action.
func TestDriverLoadWhileNoAgentRuns(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(file, []byte("DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := simtest.New(t, "--gpus=2", healthtest.Model)
	n.Run("set", "nvmlDeviceGetFieldValues.return=3", "0.power=700000", "1.power=700000")
	p := start(t, n, "--collectors="+file)
	run := "--run-root=" + p.run
	p.worst(`gpu="0"`, "0")
	n.Run("xid", "0", "119")
	p.worst(`gpu="0"`, "20")
	p.Stop()
	p = start(t, n, "--collectors="+file, run)
	p.worst(`gpu="0"`, "20")
	p.Stop()
	n.Run("set", "0.power=0", "1.power=0")
	n.Run("set", "driver=off")
	n.Run("set", "driver=on")
	p = start(t, n, "--collectors="+file, run)
	p.worst(`gpu="0"`, "0")
}

// worst waits until the worst health of a GPU has this level.
func (p *process) worst(gpu, level string) {
	p.t.Helper()
	agenttest.Poll(p.t, fmt.Sprintf("a health of %s of %s", level, gpu), func() bool {
		var levels []string
		for _, v := range p.series("DCGM_EXP_GPU_HEALTH_STATUS", gpu) {
			levels = append(levels, v)
		}
		slices.Sort(levels) // "0", "10", "20"
		return len(levels) > 0 && levels[len(levels)-1] == level
	})
}
