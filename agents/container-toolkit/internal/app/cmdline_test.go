package app_test

import (
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	agenttest.Program(t, app.App).Agent(t, map[string]cmdlinetest.Case{
		"a relative folder":                  {Line: "--listen= --toolkit-install-dir=x", Code: 2, Want: []string{"--toolkit-install-dir", `"x"`, "an absolute path"}},
		"a relative folder by NVIDIA's name": {Line: "--listen= -toolkit-root x", Code: 2, Want: []string{"--toolkit-install-dir", `"x"`}},
		"a relative folder by variable":      {Line: "--listen=", Env: map[string]string{"ROOT": "x"}, Code: 2, Want: []string{"--toolkit-install-dir", "ROOT", `"x"`}},
		"a kind that is none":                {Line: "--listen= --cdi-kind=gpu", Code: 2, Want: []string{"--cdi-kind", `"gpu"`}},
		"device nodes that are none":         {Line: "--listen= --create-device-nodes=all", Code: 2, Want: []string{"--create-device-nodes", `"all"`}},
		"an index that is none":              {Line: "--listen= --enable-nri-plugin --nri-plugin-index=1", Code: 2, Want: []string{"--nri-plugin-index", `"1"`}},
	})
}
