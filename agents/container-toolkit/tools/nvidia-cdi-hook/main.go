// Nvidia-cdi-hook is the program that CDI specs run in a container before it starts. Its
// hooks adapt the container to the GPU driver that is mounted into it.
package main

import (
	"fmt"
	"os"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
)

func main() {
	const name = "nvidia-cdi-hook"
	if err := cdihook.Confine(); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(cdihook.Main(name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
