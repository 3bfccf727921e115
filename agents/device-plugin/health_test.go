package main

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/healthtest"
)

// Each class of faults has the same verdict in all agents, also after a restart.
func TestFaultClasses(t *testing.T) {
	for name, c := range healthtest.Cases() {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=2", healthtest.Model)
			p := start(t, n)
			p.wait(2, 0)
			c.Apply(n)
			if !c.Event() {
				p.Hangup(1)
			}
			if c.Event() && c.Severity == health.Ignored {
				p.Said("xid ignored")
			}
			unhealthy := 0
			if c.Severity == health.Failure {
				unhealthy = 1
			}
			p.wait(2-unhealthy, unhealthy)
			p.Stop()
			p.run(n)
			p.Said("ready: devices are registered and listed") // the list of the first process is the same
			p.wait(2-unhealthy, unhealthy)
		})
	}
}

// The command explain has the verdict of the plugin, also after an XID.
func TestExplainKnowsXIDs(t *testing.T) {
	n := simtest.New(t, "--gpus=2", healthtest.Model)
	p := start(t, n)
	p.wait(2, 0)
	n.Run("xid", "0", "119")
	p.wait(1, 1)
	p.Stop()
	out, err := agenttest.Command(t, n, "explain", "--run-root", p.path("run")).Output()
	if err != nil || !strings.Contains(string(out), "xid 119") {
		t.Errorf("explain: %v\n%s", err, out)
	}
}

// The section health of the config file counts at the start, and each change of it while the plugin runs.
func TestRulesOfTheConfigFile(t *testing.T) {
	n := simtest.New(t, "--gpus=2", healthtest.Model)
	n.Run("set", "0.remap-failed=1")
	p := newProcess(t)
	file := p.path("config.yaml")
	write := func(rules string) {
		t.Helper()
		assert.NilError(t, os.WriteFile(file, []byte("version: v1\nhealth: "+rules+"\n"), 0o600))
	}
	write("{row-remap-failed: warn}")
	p.run(n, "--config-file", file)
	p.wait(2, 0)
	write("{}")
	p.wait(1, 1)
	write("{row-remap-failed: ignore, xid-94: fail}")
	p.wait(2, 0)
	n.Run("xid", "1", "94")
	p.wait(1, 1)
	write("{row-remap: ignore, xid-94: often}")
	p.Said("row-remap: unknown class", "xid-94: invalid value")
}
