// Mig-manager divides the GPUs of its node into MIG devices, as a label of the Node and a config
// select. It also is the command-line program nvidia-mig-parted.
package main

import (
	"os"

	"outrigger.dev/agents/mig-manager/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.Named(os.Args[0])) }
