package app_test

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestAppIsValid(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(app.App()))
	assert.NilError(t, agenttest.CheckHelp(app.App()))
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
