//go:build e2e

package plain_test

import (
	"encoding/json"
	"slices"
	"strings"

	"outrigger.dev/test/e2e/nvidia"
	"outrigger.dev/test/e2e/stack"
)

// theirs replaces the device plugin and feature discovery by NVIDIA's manifests, which have no value for the simulation: the
// driver comes by the container runtime, and /proc and /sys are those of the container. They offer the same GPUs, and give the same
// labels.
func theirs(n node) {
	ours := n.features()
	n.Must(n.Uninstall(n.T.Context(), "device-plugin"))
	n.Must(n.Uninstall(n.T.Context(), "feature-discovery"))
	n.install("container-toolkit", root, "runtime.setAsDefault=true", "acceptVisibleDevicesEnvvar=true")
	n.MustKubectl("label", "node", n.name, "feature.node.kubernetes.io/pci-10de.present=true")
	name, err := n.Image("device-plugin")
	n.Must(err)
	image, versions := nvidia.Image{Name: name}, nvidia.Versions()
	plugin, err := nvidia.StaticPlugin(versions[len(versions)-1], image)
	n.Must(err)
	discovery, err := nvidia.StaticDiscovery(image)
	n.Must(err)
	n.Must(n.Apply(n.T.Context(), plugin))
	n.Must(n.Apply(n.T.Context(), discovery))
	n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 2, limit))
	n.computes("theirs")
	file := "/etc/kubernetes/node-feature-discovery/features.d/gfd"
	n.Until("the features file is there", func() bool { return n.Shell(n.name, "ls "+file+" 2>/dev/null; true") == file })
	for line := range strings.Lines(n.Shell(n.name, "cat "+file)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !apart(key) && ours[key] != value {
			n.T.Errorf("%s is %q with NVIDIA's manifest, and %q with our chart", key, value, ours[key])
		}
		delete(ours, key)
	}
	for key, value := range ours {
		if !apart(key) {
			n.T.Errorf("%s=%s is missing with NVIDIA's manifest", key, value)
		}
	}
	n.MustKubectl("delete", "namespace", nvidia.Namespace, "--wait", "--timeout=4m")
	n.Shell(n.name, "rm -rf /etc/kubernetes/node-feature-discovery")
	n.MustKubectl("label", "node", n.name, "feature.node.kubernetes.io/pci-10de.present-")
	n.Must(n.Uninstall(n.T.Context(), "container-toolkit"))
}

// apart reports whether a label differs for another reason: the time, a value of our chart in this test, and labels that NVIDIA's
// operator and MIG manager set.
func apart(key string) bool {
	return strings.HasPrefix(key, "nvidia.com/gpu.deploy.") ||
		slices.Contains([]string{"nvidia.com/gfd.timestamp", "nvidia.com/mig.strategy", "nvidia.com/gpu.present", stack.MIGConfig + ".state"}, key)
}

// features returns the labels of the node that feature discovery gives.
func (n node) features() map[string]string {
	n.T.Helper()
	var all map[string]string
	n.Must(json.Unmarshal([]byte(n.MustKubectl("get", "node", n.name, "-o", "jsonpath={.metadata.labels}")), &all))
	for key := range all {
		if !strings.HasPrefix(key, "nvidia.com/") {
			delete(all, key)
		}
	}
	return all
}
