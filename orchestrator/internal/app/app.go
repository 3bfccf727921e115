// Package app wires the orchestrator: its flags and commands.
package app

import "outrigger.dev/pkg/agent"

const name = "orchestrator"

// App describes the orchestrator.
func App() agent.App {
	return agent.App{
		Name:     name,
		Usage:    "applies the charts of all agents to a cluster in order, validates each stage, and reports",
		Flags:    flags(),
		Aliases:  map[string]string{"f": flagValues, "n": flagNamespace},
		Listen:   ":9420",
		New:      newOperator,
		Commands: commands(),
	}
}
