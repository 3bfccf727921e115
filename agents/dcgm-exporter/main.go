// Dcgm-exporter serves the metrics of the GPUs of its node to Prometheus, under the names of
// NVIDIA's DCGM Exporter.
package main

import (
	"outrigger.dev/agents/dcgm-exporter/internal/app"
	"outrigger.dev/pkg/agent"
)

func main() { agent.Main(app.App()) }
