// Dra-plugin offers the NVIDIA GPUs of its node by Dynamic Resource Allocation.
package main

import (
	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(draapp.App()) }
