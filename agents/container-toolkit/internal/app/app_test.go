package app_test

import (
	"bytes"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestAppIsValid(t *testing.T) {
	if err := agenttest.CheckApp(app.App()); err != nil {
		t.Error(err)
	}
	if err := agenttest.CheckHelp(app.App()); err != nil {
		t.Error(err)
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := agent.Exec(t.Context(), app.App(), []string{"container-toolkit", "--help"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	golden.Assert(t, out.String(), "help.golden")
}

func TestFlagsAreDocumented(t *testing.T) {
	agenttest.Documented(t, app.App(), "../../../../docs/container-toolkit-reference.md", "../../../../docs/device-plugin-reference.md")
}
