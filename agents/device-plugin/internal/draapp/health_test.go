package draapp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/healthtest"
)

// Each class of faults has the same verdict in all agents, also after a restart. A device that is unhealthy
// is not in the ResourceSlices.
func TestFaultClasses(t *testing.T) {
	for name, c := range healthtest.Cases() {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=2", healthtest.Model)
			dir := t.TempDir()
			p := startUnconnected(t, n, dir)
			has := func(unhealthy int) {
				t.Helper()
				agenttest.Poll(t, fmt.Sprintf("%d unhealthy devices of 2", unhealthy), func() bool {
					_, metrics := p.Ask("/metrics") // Get compares it with the docs of the device plugin
					good, bad := devices(metrics)
					return good == 2-unhealthy && bad == unhealthy
				})
			}
			has(0)
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
			has(unhealthy)
			p.Stop()
			p = startUnconnected(t, n, dir)
			has(unhealthy)
		})
	}
}

// devices returns how many devices are healthy and unhealthy.
func devices(metrics string) (good, bad int) {
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "outrigger_dra_plugin_device_health{") {
			if strings.HasSuffix(line, " 1\n") {
				good++
			} else {
				bad++
			}
		}
	}
	return good, bad
}

// startUnconnected starts the DRA plugin in a node, without an API server. dir is its run root.
func startUnconnected(t *testing.T, n *simtest.Node, dir string) *agenttest.Process {
	t.Helper()
	path := func(name string) string { return filepath.Join(dir, name) }
	assert.NilError(t, os.WriteFile(path("kubeconfig"), []byte(kubeconfig), 0o600))
	sockets := agenttest.ShortDir(t)
	return agenttest.Start(t, agenttest.Command(t, n, "--node-name", "n1", "--kubeconfig", path("kubeconfig"), "--listen", "127.0.0.1:0",
		"--run-root", dir, "--cdi-root", path("cdi"), "--kubelet-plugins-dir", sockets, "--kubelet-registry-dir", sockets))
}
