package cdihook_test

import (
	"io"
	"strings"
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	p := cmdlinetest.Program{Name: "nvidia-cdi-hook", Run: func(args []string, stdout, stderr io.Writer) int {
		return cdihook.Main(args[0], args[1:], strings.NewReader(""), stdout, stderr)
	}}
	p.Check(t, map[string]cmdlinetest.Case{
		"the version":               {Line: "--version", Want: []string{"nvidia-cdi-hook"}},
		"help":                      {Line: "--help"},
		"an unknown flag":           {Line: "--nonsense", Code: 2, Want: []string{"nonsense", "--help"}},
		"an unknown flag of a hook": {Line: "chmod --nonsense", Code: 1, Want: []string{"nonsense"}},
		// A spec may name hooks of a newer version.
		"an unknown hook": {Line: "nonsense"},
	})
}
