// Mig-manager divides the GPUs of its node into MIG devices, with a config that a label of the Node
// selects. It is also the command-line program nvidia-mig-parted.
package main

import (
	"os"

	"outrigger.dev/agents/mig-manager/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.Named(os.Args[0])) }
