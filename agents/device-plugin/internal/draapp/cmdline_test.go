package draapp_test

import (
	"io"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	p := cmdlinetest.Program{Name: "dra-plugin", Usage: 2, Run: func(args []string, stdout, stderr io.Writer) int {
		return agent.Exec(t.Context(), draapp.App(), args, stdout, stderr)
	}}
	p.Agent(t, map[string]cmdlinetest.Case{
		"no node":                     {Line: "--listen=", Code: 2, Want: []string{"--node-name", "NODE_NAME"}},
		"a relative folder":           {Line: "--listen= --node-name=n --kubelet-plugins-dir=x", Code: 2, Want: []string{"--kubelet-plugins-dir", `"x"`}},
		"a relative hook":             {Line: "--listen= --node-name=n --nvidia-ctk-path=x", Code: 2, Want: []string{"--nvidia-cdi-hook-path", `"x"`}},
		"a relative root by variable": {Line: "--listen= --node-name=n", Env: map[string]string{"NVIDIA_DRIVER_ROOT": "x"}, Code: 2, Want: []string{"--driver-root", "NVIDIA_DRIVER_ROOT", `"x"`}},
	})
}
