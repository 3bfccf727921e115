package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/pkg/agent"
)

// newRegistry returns the registry of the metrics of the exporter itself.
func newRegistry(k *kubelet) (*prometheus.Registry, error) {
	own := agent.ProcessCollectors(name)
	if k != nil {
		own = append(own, k)
	}
	registry := prometheus.NewRegistry()
	for _, c := range own {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return registry, nil
}
