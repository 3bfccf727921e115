//go:build e2e

package e2e_test

import (
	"strconv"
	"testing"
)

// TestFeatureDiscoveryFindsTheConfigOfThePlugin shares GPUs in the chart of the device
// plugin alone.
func TestFeatureDiscoveryFindsTheConfigOfThePlugin(t *testing.T) {
	admin := discovery(t)
	pluginWith(t, timeSlicing)
	allocatable(t, 2*gpus, limit)
	nodeIs(t, admin, gpuNode(), "the labels agree with what is advertised", labelled(map[string]string{
		"nvidia.com/gpu.count": strconv.Itoa(gpus), "nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.sharing-strategy": "time-slicing",
	}))
	// Another config takes effect in both.
	pluginWith(t)
	allocatable(t, gpus, limit)
	nodeIs(t, admin, gpuNode(), "the labels agree again", labelled(map[string]string{
		"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none",
	}))
}
