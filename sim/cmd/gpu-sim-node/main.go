// Gpu-sim-node simulates the GPUs of a node of Kubernetes, as a label of its Node, or a pool, asks for.
package main

import (
	"outrigger.dev/pkg/agent"
	"outrigger.dev/sim/internal/nodeapp"
)

func main() { agent.Main(nodeapp.App()) }
