// Throwaway is an agent that does nothing.
package main

import (
	"outrigger.dev/agents/throwaway/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
