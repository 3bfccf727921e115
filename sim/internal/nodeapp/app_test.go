package nodeapp_test

import (
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
	"outrigger.dev/sim/internal/nodeapp"
)

func TestFlagsAreDocumented(t *testing.T) {
	agenttest.Documented(t, nodeapp.App(), "../../../docs/gpu-sim.md")
}

func TestCommandLine(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	agenttest.Program(t, nodeapp.App).Agent(t, map[string]cmdlinetest.Case{
		"pools that are no list":     {Line: "--listen= --node-name=n --pools={}", Code: 2, Want: []string{"--pools", "want a list of pools in JSON"}},
		"pools by variable":          {Line: "--listen= --node-name=n", Env: map[string]string{"POOLS": `[{"model":"h900"}]`}, Code: 2, Want: []string{"--pools", `model "h900" is unknown`}},
		"models that are no mapping": {Line: "--listen= --node-name=n --models=[]", Code: 2, Want: []string{"--models", "want a mapping of models in JSON"}},
		"a relative folder":          {Line: "--listen= --node-name=n --root=x", Code: 2, Want: []string{"--root", `"x"`}},
	})
}
