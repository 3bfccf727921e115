// Nvidia-ctk configures container runtimes for GPUs, generates CDI specs, and explains which
// devices a container would get.
package main

import (
	"os"

	"outrigger.dev/agents/container-toolkit/internal/ctk"
)

func main() {
	os.Exit(ctk.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
