package app_test

import (
	"maps"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	commands := func(code int) map[string]cmdlinetest.Case {
		return map[string]cmdlinetest.Case{
			"a format that is none of plan":  {Line: "plan -f x -c y --board h100-80 -o xml", Code: code, Want: []string{"--output-format", `"xml"`, "text or json"}},
			"an option before the command":   {Line: "-d plan -o xml", Code: code, Want: []string{"--output-format", `"xml"`}},
			"an option after the command":    {Line: "plan -o xml -d", Code: code, Want: []string{"--output-format", `"xml"`}},
			"a format by variable":           {Line: "plan -f x -c y --board h100-80", Env: map[string]string{"MIG_PLAN_OUTPUT_FORMAT": "xml"}, Code: code, Want: []string{"--output-format", "MIG_PLAN_OUTPUT_FORMAT", `"xml"`}},
			"a command without its file":     {Line: "apply", Code: code, Want: []string{"--config-file"}},
			"a file that is not there":       {Line: "plan --board=a30 -f /no/such", Code: 1, Want: []string{"--config-file", "/no/such"}},
			"a word too many for a command":  {Line: "export nonsense", Code: code, Want: []string{"nonsense"}},
			"a relative root of a command":   {Line: "-sys-root=x export", Code: code, Want: []string{"--sys-root", `"x"`}},
			"a letter that no command knows": {Line: "plan -y", Code: code, Want: []string{"-y"}},
		}
	}
	t.Run("agent", func(t *testing.T) {
		cases := commands(2)
		maps.Copy(cases, map[string]cmdlinetest.Case{
			"pods that are none":             {Line: "--listen= --node-name=n --gpu-pods=shoot", Code: 2, Want: []string{"--gpu-pods", `"shoot"`}},
			"pods that are none by variable": {Line: "--listen= -n n", Env: map[string]string{"GPU_PODS": "shoot"}, Code: 2, Want: []string{"--gpu-pods", "GPU_PODS", `"shoot"`}},
		})
		agenttest.Program(t, app.App).Agent(t, cases)
	})
	t.Run("parted", func(t *testing.T) { agenttest.Program(t, app.Parted).Tool(t, commands(1)) })
}
