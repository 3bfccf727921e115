package app_test

import (
	"testing"

	"outrigger.dev/pkg/cmdline/cmdlinetest"
	"outrigger.dev/sim/internal/app"
)

func TestCommandLine(t *testing.T) {
	cmdlinetest.Program{Name: "gpu-sim", Usage: 1, Run: app.Main}.Tool(t, map[string]cmdlinetest.Case{
		"a number that is too large":    {Line: "create --gpus=17", Code: 1, Want: []string{"--gpus", "GPU_SIM_GPUS", `"17"`, "0 to 16"}},
		"a model that is none":          {Line: "create -model x", Code: 1, Want: []string{"--model", `"x"`}},
		"an unknown command of a group": {Line: "mig nonsense", Code: 1, Want: []string{`"nonsense"`}},
		"a node that is not there":      {Line: "show --root=/no/such", Code: 1, Want: []string{"/no/such"}},
	})
}
