package app_test

import (
	"testing"

	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	agenttest.Program(t, app.App).Agent(t, map[string]cmdlinetest.Case{
		"a release that is no name":           {Line: "render --release=A_B", Code: 2, Want: []string{"--release", `"A_B"`}},
		"a release before the command":        {Line: "--release A_B render", Code: 2, Want: []string{"--release", `"A_B"`}},
		"a release by variable":               {Line: "render", Env: map[string]string{"RELEASE": "A_B"}, Code: 2, Want: []string{"--release", "RELEASE", `"A_B"`}},
		"a namespace by its letter":           {Line: "render -n A_B", Code: 2, Want: []string{"--namespace", `"A_B"`}},
		"a file that is not there":            {Line: "-f /no/such render", Code: 1, Want: []string{"/no/such"}},
		"an apply that may take no time":      {Line: "apply --timeout=0s --kubeconfig=/no/such", Code: 2, Want: []string{"--timeout", `"0s"`}},
		"a word too many for a command":       {Line: "render nonsense", Code: 2, Want: []string{"nonsense"}},
		"a time of a command that is no time": {Line: "apply --timeout=soon", Code: 2, Want: []string{"timeout", `"soon"`}},
	})
}
