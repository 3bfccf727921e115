package ctk_test

import (
	"io"
	"strings"
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/ctk"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	p := cmdlinetest.Program{Name: "nvidia-ctk", Usage: 1, Run: func(args []string, stdout, stderr io.Writer) int {
		return ctk.Main(args, strings.NewReader(""), stdout, stderr)
	}}
	p.Tool(t, map[string]cmdlinetest.Case{
		"an unknown command of a group":   {Line: "cdi nonsense", Code: 1, Want: []string{`"nonsense"`, "'nvidia-ctk cdi --help'"}},
		"an argument of a command":        {Line: "cdi list nonsense", Code: 1, Want: []string{`"nonsense"`}},
		"an option before a command":      {Line: "--quiet cdi list --spec-dir=/no/such"},
		"aliases of cdi generate":         {Line: "cdi generate --devices=0 --disable-hooks=all --enable-hooks=chmod --feature-flags=x --help", Want: []string{"--devices"}},
		"aliases of runtime configure":    {Line: "runtime configure --runtime-path=/x --help", Want: []string{"--runtime-path"}},
		"an option after a command":       {Line: "cdi list -spec-dir /no/such -quiet"},
		"a mode by variable":              {Line: "cdi generate", Env: map[string]string{"NVIDIA_CTK_CDI_GENERATE_MODE": "x"}, Code: 1, Want: []string{"--mode", "NVIDIA_CTK_CDI_GENERATE_MODE", `"x"`}},
		"a root that is no path":          {Line: "cdi transform root --from=x --to=/", Code: 1, Want: []string{"--from", "NVIDIA_CTK_CDI_TRANSFORM_ROOT_FROM", `"x"`, "an absolute path"}},
		"no root":                         {Line: "cdi transform root", Code: 1, Want: []string{"--from", "--to"}},
		"paths that are none":             {Line: "cdi transform root --from=/ --to=/ --relative-to=x", Code: 1, Want: []string{"--relative-to", `"x"`, "host or container"}},
		"outputs that exclude each other": {Line: "config -i --output=x", Code: 1, Want: []string{"--in-place"}},
	})
}
