package app_test

import (
	"testing"

	"outrigger.dev/agents/driver-loader/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	agenttest.Program(t, app.App).Agent(t, map[string]cmdlinetest.Case{
		"modules that are none":             {Line: "plan --kernel-module-type=shut", Code: 2, Want: []string{"--kernel-module-type", `"shut"`, "auto"}},
		"modules that are none by variable": {Line: "plan", Env: map[string]string{"KERNEL_MODULE_TYPE": "shut"}, Code: 2, Want: []string{"--kernel-module-type", "KERNEL_MODULE_TYPE", `"shut"`}},
		"fewer threads than none":           {Line: "--max-threads=-1 plan", Code: 2, Want: []string{"--max-threads", `"-1"`}},
		"threads that are no number":        {Line: "plan --max-threads=x", Code: 2, Want: []string{"max-threads", `"x"`}},
		"a relative root":                   {Line: "plan --sys-root=x", Code: 2, Want: []string{"--sys-root", `"x"`, "an absolute path"}},
		"two folders to install to":         {Line: "install /a /b", Code: 2, Want: []string{"DIR"}},
	})
}
