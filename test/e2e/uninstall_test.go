//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// hostFiles lists what agents may leave on a node, but for their lock files, which go with the
// next boot.
const hostFiles = "find /run/nvidia /var/run/cdi /usr/local/nvidia /var/lib/nvidia-container-toolkit '(' -type f -o -type l ')' ! -path '/run/nvidia/leases/*' ! -name gpu-index ! -name gpu-incidents 2>/dev/null | sort; " + toolkitFiles

// TestAgentsCleanUpTheirNode deletes the DaemonSets of all agents, as the orchestrator does,
// and compares the node with what it was before.
func TestAgentsCleanUpTheirNode(t *testing.T) {
	api := bare(t)
	// A plugin whose rights were deleted before it ended cannot see that it is uninstalled.
	onGPUNode(t, "rm -f /var/run/cdi/k8s.device-plugin.*")
	before, files := gpuLabels(nodeIs(t, api, gpuNode(), "the Node is there", func(stack.Node) bool { return true })), onGPUNode(t, hostFiles)
	discovery(t, "readyChain={driver,toolkit,plugin,cuda}")
	toolkit(t)
	plugin(t)
	validator(t)
	validates(t, driverPod, "Succeeded")
	nodeIs(t, api, gpuNode(), "all links hold", readyIs("True", ""))
	for _, sets := range [][]string{{"device-plugin"}, {"container-toolkit"}, {"feature-discovery", "feature-discovery-presence"}} {
		kubectl(t, append([]string{"-n", stack.Namespace, "delete", "daemonset", "--cascade=foreground", "--wait"}, sets...)...)
	}
	n := nodeIs(t, api, gpuNode(), "labels and condition are gone", func(n stack.Node) bool {
		_, condition := n.Conditions[gpuReady]
		return !condition && len(gpuLabels(n)) == len(before)
	})
	for label := range n.Labels {
		if strings.HasPrefix(label, "feature.node.kubernetes.io/") {
			t.Errorf("the label %s is left", label)
		}
	}
	if now := onGPUNode(t, hostFiles); now != files {
		t.Errorf("the files of the node were\n%s\nand are\n%s", files, now)
	}
}
