// Package app wires the orchestrator: its flags and commands.
package app

import "outrigger.dev/pkg/agent"

const name = "orchestrator"

// App describes the orchestrator.
func App() agent.App {
	s := &settings{}
	return agent.App{
		Name:     name,
		Usage:    "applies the charts of all agents to a cluster in order, validates each stage, and reports",
		Flags:    s.flags(),
		Listen:   ":9420",
		New:      s.newOperator,
		Commands: s.commands(),
	}
}
