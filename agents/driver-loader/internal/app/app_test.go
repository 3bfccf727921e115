package app_test

import (
	"bytes"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/driver-loader/internal/app"
	"outrigger.dev/pkg/agent"
)

func TestAppIsValid(t *testing.T) {
	if err := agent.CheckApp(app.App()); err != nil {
		t.Error(err)
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := agent.Exec(t.Context(), app.App(), []string{"driver-loader", "--help"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	golden.Assert(t, out.String(), "help.golden")
}
