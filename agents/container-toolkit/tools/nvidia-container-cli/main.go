// Nvidia-container-cli gives GPUs to a container that a runtime has created, and lists the
// GPUs and the driver files of a node.
package main

import (
	"os"

	"outrigger.dev/agents/container-toolkit/internal/containercli"
)

func main() {
	os.Exit(containercli.Main(os.Args, os.Stdout, os.Stderr))
}
