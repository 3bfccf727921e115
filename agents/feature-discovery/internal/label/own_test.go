package label_test

import (
	"slices"
	"strings"
	"testing"

	"outrigger.dev/pkg/config"
)

// own reports whether a key is the timestamp or a key that Of can set. Other keys of
// the domain, such as nvidia.com/mig.config and nvidia.com/gpu.deploy.driver, belong
// to other writers. The admission policy has the same rules.
func own(key string) bool {
	name, ok := strings.CutPrefix(key, config.Domain)
	if !ok {
		return false
	}
	if slices.Contains(named("node"), name) {
		return true
	}
	if rest, ok := strings.CutPrefix(name, "gpu."); ok && slices.Contains(named("gpu", "mig", "both"), rest) {
		return true
	}
	if rest, ok := strings.CutPrefix(name, "gpu.product-"); ok {
		return slices.ContainsFunc(named("gpu", "both"), func(n string) bool {
			product, ok := strings.CutSuffix(rest, "."+n)
			return ok && product != ""
		})
	}
	return slices.ContainsFunc(named("mig", "both"), func(n string) bool {
		resource, ok := strings.CutSuffix(key, "."+n)
		return ok && config.IsMIGResource(resource)
	})
}

// TestOwnNot checks keys of other writers in the same domain. The function of checks
// that own knows all labels of Of.
func TestOwnNot(t *testing.T) {
	for _, key := range []string{
		"", "nvidia.com/", "nvidia.com/gpu", "gpu.count", "example.com/gpu.count",
		"nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/mig-manager", "nvidia.com/mig-manager.count",
		"nvidia.com/gpu.deploy.driver", "nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.mig-manager",
		"nvidia.com/gpu.workload.config", "nvidia.com/device-plugin.config", "nvidia.com/vgpu.config",
		"nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip", "nvidia.com/gpu-operator.state",
		"nvidia.com/gpu-operator.driver.owner", "nvidia.com/cc.capable", "nvidia.com/cuda.present",
		// Users set these by hand.
		"nvidia.com/gpu.product-name", "nvidia.com/gpu.product-id", "nvidia.com/gpu.product-.count",
		// The labels of Presence have another writer.
		"nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present",
		"nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.", "nvidia.com/mig-1g.5gb.family", "nvidia.com/mig-large.count",
	} {
		if own(key) {
			t.Errorf("own(%q) = true", key)
		}
	}
	for _, key := range []string{
		"nvidia.com/gfd.timestamp", "nvidia.com/gpu.count", "nvidia.com/gpu.engines.ofa", "nvidia.com/mig-1c.2g.10gb.me.all.slices.ci",
		"nvidia.com/gpu.product-NVIDIA-A100-SXM4-40GB.compute.major", "nvidia.com/vgpu.host-driver-branch",
	} {
		if !own(key) {
			t.Errorf("own(%q) = false", key)
		}
	}
}
