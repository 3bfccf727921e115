// Package app wires the orchestrator: its flags and commands.
package app

import (
	"time"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
)

const name = "orchestrator"

// stopLimit is the time limit for the end of the current pass and the release of the Lease. If a process does not
// release the Lease, the next process waits until the Lease expires. The grace period of the chart's pods is 5 s
// longer.
const stopLimit = 25 * time.Second

// App describes the orchestrator.
func App() agent.App {
	s := &settings{}
	return agent.App{
		Name:  name,
		Usage: "applies the charts of all agents to a cluster in order, validates each stage, and reports",
		Examples: []cmdline.Example{
			{Purpose: "Print all errors of a values file; this needs no cluster", Line: "orchestrator check -f values.yaml"},
			{Purpose: "Print all objects; this needs no cluster", Line: "orchestrator render -f values.yaml"},
			{Purpose: "Print the changes as a diff, and change nothing", Line: "orchestrator apply -f values.yaml --dry-run"},
			{Purpose: "Apply stage by stage, and validate each stage", Line: "orchestrator apply -f values.yaml --wait"},
			{Purpose: "Delete everything, and list the remains", Line: "orchestrator delete --verify"},
		},
		Flags:    s.flags(),
		Listen:   ":9420",
		New:      s.newOperator,
		Commands: s.commands(),

		StopLimit: stopLimit,
	}
}
