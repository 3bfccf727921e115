// Feature-discovery reports which GPUs its node has and whether they can be used: it
// writes labels and the condition GPUReady of the Node, and removes its start-up taint.
package main

import (
	"outrigger.dev/agents/feature-discovery/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
