package main

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/kube/apitest"
)

// configLabel is the label that selects a config.
const configLabel = "nvidia.com/device-plugin.config"

// runInPod starts the plugin of p with a folder of configs, of which the label of the
// Node selects one.
func (p *process) runInPod(n *simtest.Node, api *apitest.API) {
	p.t.Helper()
	configs := p.t.TempDir()
	for name, config := range map[string]string{
		"default": "version: v1",
		"shared":  "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
	} {
		assert.NilError(p.t, os.WriteFile(filepath.Join(configs, name), []byte(config), 0o600))
	}
	cmd := p.command(n, "--node-name", api.Name, "--config-dir", configs, "--default-config", "default")
	agenttest.InPod(p.t, cmd, api.Config.Host, apitest.Account(p.t, api.Config))
	p.Process = agenttest.Start(p.t, cmd)
}

// readyz waits until /readyz contains a text.
func (p *process) readyz(text string) {
	p.t.Helper()
	agenttest.Poll(p.t, "/readyz to say "+text, func() bool { return strings.Contains(p.Get("/readyz"), text) })
}

// A plugin that does not know the label must not advertise what another config says.
func TestStartWithoutTheAPIServer(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus", "2")
	api := apitest.New(t, map[string]string{configLabel: "shared"})
	p := newProcess(t)

	// The label is not known.
	api.Unavailable(math.MaxInt)
	p.runInPod(n, api)
	p.Said("advertising nothing until it is known")
	p.readyz("the label " + configLabel + " of the node is not known yet")
	if code, body := p.Ask("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d %q, want the kubelet to let the plugin wait", code, body)
	}
	if got := p.kubelet.Registrations(); len(got) > 0 {
		t.Errorf("registrations %v, want none", got)
	}
	api.Unavailable(0)
	p.wait(8, 0)
	p.readyz("ok\n")
	p.Stop()

	// Its last value is known.
	api.Unavailable(math.MaxInt)
	p.runInPod(n, api)
	p.Said("using its last known value", "value=shared")
	p.wait(8, 0)
	p.readyz("changes on the API server are not seen")
	api.SetLabels(nil)
	api.Unavailable(0)
	p.wait(2, 0)
	p.readyz("ok\n")
}
