// Feature-discovery reports which GPUs its node has and whether they can be used: it
// writes labels and the condition GPUReady of the Node, and removes its start-up taint.
// NVIDIA's manifests run it under the name gpu-feature-discovery.
package main

import (
	"os"
	"path/filepath"

	"outrigger.dev/agents/feature-discovery/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App(filepath.Base(os.Args[0]))) }
