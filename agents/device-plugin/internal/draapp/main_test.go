package draapp_test

import (
	"testing"

	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m, func() { agent.Main(draapp.App()) }) }
