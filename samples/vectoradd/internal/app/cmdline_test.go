package app_test

import (
	"testing"

	"outrigger.dev/pkg/cmdline/cmdlinetest"
	"outrigger.dev/samples/vectoradd/internal/app"
)

func TestCommandLine(t *testing.T) {
	cmdlinetest.Program{Name: "vectoradd", Usage: 1, Run: app.Main}.Tool(t, map[string]cmdlinetest.Case{
		"a number that is too small":              {Line: "--elements=0", Code: 1, Want: []string{"--elements", "VECTORADD_ELEMENTS", `"0"`}},
		"a number that is too small, by variable": {Env: map[string]string{"VECTORADD_DEVICE": "-1"}, Code: 1, Want: []string{"--device", "VECTORADD_DEVICE", `"-1"`, "0 or more"}},
	})
}
