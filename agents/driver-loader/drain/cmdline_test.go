package drain_test

import (
	"io"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/drain"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	p := cmdlinetest.Program{Name: "driver-loader-drain", Usage: 2, Run: func(args []string, stdout, stderr io.Writer) int {
		return drain.Main(t.Context(), args, strings.NewReader("nonsense"), stdout, stderr)
	}}
	p.Tool(t, map[string]cmdlinetest.Case{
		"a request that is none":           {Code: 2, Want: []string{"request"}},
		"a time that is none":              {Line: "--retry-every=soon", Code: 2, Want: []string{"retry-every", `"soon"`}},
		"a time that is none, by variable": {Env: map[string]string{"RETRY_EVERY": "soon"}, Code: 2, Want: []string{"RETRY_EVERY", `"soon"`}},
	})
}
