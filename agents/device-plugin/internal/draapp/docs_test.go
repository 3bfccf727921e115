package draapp_test

import (
	"testing"

	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestFlagsAreDocumented(t *testing.T) {
	agenttest.Documented(t, draapp.App(), "../../../../docs/dra-plugin.md", "../../../../docs/device-plugin-reference.md")
}
