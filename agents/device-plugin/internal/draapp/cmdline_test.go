package draapp_test

import (
	"testing"

	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	agenttest.Program(t, draapp.App).Agent(t, map[string]cmdlinetest.Case{
		"no node":                     {Line: "--listen=", Code: 2, Want: []string{"--node-name", "NODE_NAME"}},
		"a relative folder":           {Line: "--listen= --node-name=n --kubelet-plugins-dir=x", Code: 2, Want: []string{"--kubelet-plugins-dir", `"x"`}},
		"a relative hook":             {Line: "--listen= --node-name=n --nvidia-ctk-path=x", Code: 2, Want: []string{"--nvidia-cdi-hook-path", `"x"`}},
		"a relative root by variable": {Line: "--listen= --node-name=n", Env: map[string]string{"NVIDIA_DRIVER_ROOT": "x"}, Code: 2, Want: []string{"--driver-root", "NVIDIA_DRIVER_ROOT", `"x"`}},
	})
}
