// Dra-plugin advertises the NVIDIA GPUs of its node through Dynamic Resource Allocation.
package main

import (
	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(draapp.App()) }
