// Feature-discovery tells the cluster what GPUs its node has and whether they
// can be used: labels, the condition GPUReady and the start-up taint of the Node.
package main

import (
	"outrigger.dev/agents/feature-discovery/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
