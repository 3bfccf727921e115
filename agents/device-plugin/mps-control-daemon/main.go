// Mps-control-daemon runs CUDA's MPS control daemons for the resources that the
// device plugin shares by MPS. It is a process of its own, so that the plugin can
// be replaced under containers that compute through the daemons.
package main

import (
	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.MPS()) }
