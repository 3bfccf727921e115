package app_test

import (
	"testing"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestFlagsAreDocumented(t *testing.T) {
	agenttest.Documented(t, app.App(), "../../../../docs/device-plugin-reference.md")
}
