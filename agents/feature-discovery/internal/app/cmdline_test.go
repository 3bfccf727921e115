package app_test

import (
	"testing"

	"outrigger.dev/agents/feature-discovery/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	agenttest.Program(t, func() agent.App { return app.App("feature-discovery") }).Agent(t, map[string]cmdlinetest.Case{
		"an output that is none":             {Line: "--publish=file", Code: 2, Want: []string{"--publish", `"file"`, "stdout"}},
		"an output that is none by variable": {Env: map[string]string{"PUBLISH": "file"}, Code: 2, Want: []string{"--publish", "PUBLISH", `"file"`}},
		"a strategy by a variable of GFD":    {Env: map[string]string{"GFD_MIG_STRATEGY": "some"}, Code: 2, Want: []string{"--mig-strategy", "GFD_MIG_STRATEGY", `"some"`}},
		"a taint that is none":               {Line: "--presence --startup-taint=x", Code: 2, Want: []string{"--startup-taint", `"x"`}},
		"a relative root":                    {Line: "--publish=stdout -sys-root=x", Code: 2, Want: []string{"--sys-root", `"x"`, "an absolute path"}},
		"a switch that is none":              {Line: "--oneshot=perhaps", Code: 2, Want: []string{"oneshot", `"perhaps"`}},
		"a switch by variable":               {Env: map[string]string{"GFD_ONESHOT": "perhaps"}, Code: 2, Want: []string{"oneshot", "GFD_ONESHOT", `"perhaps"`}},
	})
}
