// Mig-manager divides the GPUs of its node into MIG devices, as a config and a label of the
// node say. It is the command line nvidia-mig-parted too.
package main

import (
	"os"

	"outrigger.dev/agents/mig-manager/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.Named(os.Args[0])) }
