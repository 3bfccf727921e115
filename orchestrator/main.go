// Orchestrator applies the charts of all agents to a cluster in order, validates each
// stage, and reports.
package main

import (
	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
