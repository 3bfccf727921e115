// Mps-control-daemon runs CUDA's MPS control daemons for the resources that the
// device plugin shares by MPS. It is a separate process, so that the device plugin can
// be replaced while containers use the daemons.
package main

import (
	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.MPS()) }
