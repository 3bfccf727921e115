package app_test

import (
	"testing"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	agenttest.Program(t, app.App).Agent(t, map[string]cmdlinetest.Case{
		"a strategy that is none":             {Line: "--mig-strategy some", Code: 2, Want: []string{"--mig-strategy", `"some"`, "none, single or mixed"}},
		"a strategy that is none by variable": {Env: map[string]string{"MIG_STRATEGY": "some"}, Code: 2, Want: []string{"--mig-strategy", "MIG_STRATEGY", `"some"`}},
		"a relative root":                     {Line: "--driver-root x", Code: 2, Want: []string{"--driver-root", `"x"`, "an absolute path"}},
		"a relative root by NVIDIA's name":    {Line: "-nvidia-driver-root=x", Code: 2, Want: []string{"--driver-root", `"x"`}},
		"a relative root by variable":         {Env: map[string]string{"NVIDIA_DRIVER_ROOT": "x"}, Code: 2, Want: []string{"--driver-root", "NVIDIA_DRIVER_ROOT", `"x"`}},
		"a source of a command":               {Line: "snapshot --gpu-source=file:", Code: 2, Want: []string{"--gpu-source", `"file:"`}},
		"a source before a command":           {Line: "--gpu-source=file: snapshot", Code: 2, Want: []string{"--gpu-source", `"file:"`}},
		"a fact that is none":                 {Line: "wait --for=godot", Code: 2, Want: []string{"--for", `"godot"`, "driver-ready"}},
		"a fact by variable":                  {Line: "wait", Env: map[string]string{"WAIT_FOR": "godot"}, Code: 2, Want: []string{"--for", "WAIT_FOR", `"godot"`}},
		"no fact":                             {Line: "wait", Code: 2, Want: []string{"--for"}},
		"a time that is none":                 {Line: "--health-quiet-window=soon", Code: 2, Want: []string{"health-quiet-window", `"soon"`}},
		"a time by variable":                  {Env: map[string]string{"HEALTH_QUIET_WINDOW": "soon"}, Code: 2, Want: []string{"health-quiet-window", "HEALTH_QUIET_WINDOW", `"soon"`}},
		"a time that is too short":            {Line: "--health-quiet-window=-1s", Code: 2, Want: []string{"--health-quiet-window", `"-1s"`}},
		"a file of a command":                 {Line: "validate /no/such", Code: 2, Want: []string{"/no/such"}},
		"an output that is none":              {Line: "explain --output yaml", Code: 2, Want: []string{"--output", `"yaml"`}},
	})
}

func TestCommandLineOfMPS(t *testing.T) {
	agenttest.Program(t, app.MPS).Agent(t, map[string]cmdlinetest.Case{
		"the init container of NVIDIA's chart": {Line: "mount-shm", Want: []string{"nothing to do"}},
		"a folder of it":                       {Line: "mount-shm /dev/shm", Code: 2, Want: []string{"/dev/shm"}},
		"a relative folder by variable":        {Env: map[string]string{"MPS_ROOT": "x"}, Code: 2, Want: []string{"--mps-root", "MPS_ROOT", `"x"`}},
	})
}
