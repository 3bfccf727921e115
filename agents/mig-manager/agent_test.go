package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// An agent that does not see changes of its label says so.
func TestReadinessSaysThatTheAPIServerIsAway(t *testing.T) {
	r := newRig(t, "h100-80", 1)
	api := apitest.New(t, nil)
	cmd := agenttest.Command(t, r.Node, "--node-name", api.Name, "--run-root", t.TempDir(), "--state-dir", r.state,
		"--host-root-mount", filepath.Join(t.TempDir(), "host"), "--listen", "127.0.0.1:0")
	agenttest.InPod(t, cmd, api.Config.Host, apitest.Account(t, api.Config))
	p := agenttest.Start(t, cmd)
	readyz := func(text string) {
		t.Helper()
		agenttest.Poll(t, "/readyz to say "+text, func() bool { return strings.Contains(p.Get("/readyz"), text) })
	}
	p.Said("serving")
	readyz("ok\n")
	p.Get("/metrics")
	api.Unavailable(math.MaxInt)
	api.Cut()
	readyz("changes on the API server are not seen")
	api.Unavailable(0)
	readyz("ok\n")
}
