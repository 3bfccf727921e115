// Command gpu-sim-hook is a createContainer hook of OCI runtimes. It shows the simulated node whose folder
// it gets as its argument in the /proc and /sys of the container.
package main

import (
	"fmt"
	"os"

	"outrigger.dev/sim/internal/hook"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gpu-sim-hook FOLDER")
		os.Exit(2)
	}
	if err := hook.Run(os.Args[1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-sim-hook:", err)
		os.Exit(1)
	}
}
