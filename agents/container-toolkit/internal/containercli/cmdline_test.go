package containercli_test

import (
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/containercli"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	cmdlinetest.Program{Name: "nvidia-container-cli", Run: containercli.Main}.Check(t, map[string]cmdlinetest.Case{
		"the version":          {Line: "--version", Want: []string{"cli-version"}},
		"help":                 {Line: "--help", Want: []string{"nvidia-container-cli"}},
		"an unknown flag":      {Line: "--nonsense info", Code: 1, Want: []string{"nonsense"}},
		"an unknown command":   {Line: "nonsense", Code: 1, Want: []string{"nonsense"}},
		"an argument too many": {Line: "info nonsense", Code: 1, Want: []string{"nonsense"}},
	})
}
