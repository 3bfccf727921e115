package label_test

import (
	"testing"

	"outrigger.dev/agents/feature-discovery/internal/label"
)

// TestOwnNot has keys of others in the same domain; that all of Of are ours is
// looked at wherever a test makes some.
func TestOwnNot(t *testing.T) {
	for _, key := range []string{
		"", "nvidia.com/", "nvidia.com/gpu", "gpu.count", "example.com/gpu.count",
		"nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/mig-manager", "nvidia.com/mig-manager.count",
		"nvidia.com/gpu.deploy.driver", "nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.mig-manager",
		"nvidia.com/gpu.workload.config", "nvidia.com/device-plugin.config", "nvidia.com/vgpu.config",
		"nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip", "nvidia.com/gpu-operator.state",
		"nvidia.com/gpu-operator.driver.owner", "nvidia.com/cc.capable", "nvidia.com/cuda.present",
		// Others write these by hand.
		"nvidia.com/gpu.product-name", "nvidia.com/gpu.product-id", "nvidia.com/gpu.product-.count",
		// Those of Presence have another writer.
		"nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present",
		"nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.", "nvidia.com/mig-1g.5gb.family", "nvidia.com/mig-large.count",
	} {
		if label.Own(key) {
			t.Errorf("Own(%q) = true", key)
		}
	}
	for _, key := range []string{
		label.Timestamp, "nvidia.com/gpu.count", "nvidia.com/gpu.engines.ofa", "nvidia.com/mig-1c.2g.10gb.me.all.slices.ci",
		"nvidia.com/gpu.product-NVIDIA-A100-SXM4-40GB.compute.major", "nvidia.com/vgpu.host-driver-branch",
	} {
		if !label.Own(key) {
			t.Errorf("Own(%q) = false", key)
		}
	}
	if label.Timestamp != "nvidia.com/gfd.timestamp" {
		t.Errorf("the timestamp is %s", label.Timestamp)
	}
}
