// Driver-loader manages the NVIDIA driver of its node. It builds or imports the kernel modules, checks and
// loads them, and shows the driver root to the other agents.
package main

import (
	"outrigger.dev/agents/driver-loader/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
