package app_test

import (
	"testing"

	"outrigger.dev/agents/feature-discovery/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestFlagsAreDocumented(t *testing.T) {
	agenttest.Documented(t, app.App("feature-discovery"), "../../../../docs/feature-discovery-reference.md", "../../../../docs/device-plugin-reference.md")
}
