// Kubectl-outrigger is a plugin of kubectl: it says why GPUs or pods do not work, shows nodes and GPUs, collects
// what a diagnosis needs, and moves clusters from NVIDIA's GPU Operator.
package main

import (
	"os"

	"outrigger.dev/orchestrator/internal/kubectl"
)

func main() { os.Exit(kubectl.Main(os.Args, os.Stdout, os.Stderr)) }
