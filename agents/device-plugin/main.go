// Device-plugin advertises the NVIDIA GPUs of its node to the kubelet as the
// extended resource nvidia.com/gpu.
package main

import (
	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
