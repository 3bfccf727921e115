// Nvidia-container-runtime-hook is the OCI prestart hook that gives a container the GPUs
// that its environment requests. Its other name is nvidia-container-toolkit.
package main

import (
	"os"

	"outrigger.dev/agents/container-toolkit/internal/prestart"
)

func main() {
	os.Exit(prestart.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
