//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// configLabel is the label by which a node chooses its config.
const configLabel = "nvidia.com/device-plugin.config"

func TestAConfigIsEditedInPlace(t *testing.T) {
	pluginWith(t, "config.map.default=version: v1")
	allocatable(t, gpus, limit)
	pod := pluginPod(t)

	config := kubectl(t, "-n", stack.Namespace, "get", "configmaps", "--selector=app.kubernetes.io/name=device-plugin", "-o", "name")
	edit := func(text string) {
		t.Helper()
		kubectl(t, "-n", stack.Namespace, "patch", config, "--type=merge", "-p", fmt.Sprintf(`{"data":{"default":%q}}`, text))
		// The kubelet reads a change of a ConfigMap at its next sync of the
		// pod, which is up to a minute away: a change of the pod causes one.
		kubectl(t, "-n", stack.Namespace, "annotate", "pod", pod, "--overwrite", fmt.Sprintf("edited=%d", len(text)))
	}
	edit("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, rename: nvidia.com/third, replicas: 3, devices: [0]}]}}")
	advertised(t, "nvidia.com/third", 3, limit)
	allocatable(t, gpus-1, limit)

	edit("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: lots}]}}")
	eventually(t, "an Event of the node names the file, the line and the value", func() bool {
		events := kubectl(t, "describe", "node", gpuNode())
		return strings.Contains(events, "ConfigRefused") && strings.Contains(events, "default") && strings.Contains(events, "lots")
	})
	// The last good one stands.
	advertised(t, "nvidia.com/third", 3, limit)

	edit("version: v1\n\n")
	allocatable(t, gpus, limit)
	advertised(t, "nvidia.com/third", 0, limit)
	if now := pluginPod(t); now != pod {
		t.Errorf("pod %s became %s, want the same pod", pod, now)
	}
	if got := kubectl(t, "-n", stack.Namespace, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the plugin was restarted %s times, want 0", got)
	}
}

func TestTheNodesLabelChoosesItsConfig(t *testing.T) {
	const half = `config.map.half=devices:
  exclude: ["0"\, "1"\, "2"\, "3"]
`
	pluginWith(t, "config.map.default=version: v1", half, "config.default=default")
	allocatable(t, gpus, limit)
	kubectl(t, "label", "node", gpuNode(), configLabel+"=half")
	t.Cleanup(func() { kubectlCleanup(t, "label", "node", gpuNode(), configLabel+"-") })
	allocatable(t, gpus/2, limit)
	kubectl(t, "label", "node", gpuNode(), configLabel+"-")
	allocatable(t, gpus, limit)
}

// The pods of this test cannot reach the API server; the kubelet can.
func TestAPluginThatStartsWithoutTheAPIServerKeepsItsConfig(t *testing.T) {
	const half = `config.map.half=devices:
  exclude: ["0"\, "1"\, "2"\, "3"]
`
	pluginWith(t, "config.map.default=version: v1", half, "config.default=default")
	kubectl(t, "label", "node", gpuNode(), configLabel+"=half")
	t.Cleanup(func() { kubectlCleanup(t, "label", "node", gpuNode(), configLabel+"-") })
	allocatable(t, gpus/2, limit)

	const selector = "--selector=app.kubernetes.io/name=device-plugin"
	daemonset := kubectl(t, "-n", stack.Namespace, "get", "daemonsets", selector, "-o", "name")
	logged := func(parts ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the plugin logs %q", parts), func() bool {
			log, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", selector, "--tail=-1")
			for _, part := range parts {
				if !strings.Contains(log, part) {
					return false
				}
			}
			return err == nil
		})
	}
	kubectl(t, "-n", stack.Namespace, "set", "env", daemonset, "KUBERNETES_SERVICE_HOST=192.0.2.1")
	logged("using its last known value", "ready: devices are registered and listed")
	allocatable(t, gpus/2, limit)

	// Without a value, another config could advertise what this node excludes. A plugin that runs
	// keeps the value again.
	gone := pluginPod(t)
	place := func(selector string) {
		kubectl(t, "-n", stack.Namespace, "patch", daemonset, "--type=merge", `--patch={"spec":{"template":{"spec":{"nodeSelector":`+selector+`}}}}`)
	}
	place(`{"outrigger.dev/none":"true"}`)
	kubectl(t, "-n", stack.Namespace, "wait", "pod/"+gone, "--for=delete", "--timeout="+limit.String())
	if _, err := shared.Exec(t.Context(), gpuNode(), "rm", "/run/nvidia/node-labels/"+strings.ReplaceAll(configLabel, "/", "_")); err != nil {
		t.Fatal(err)
	}
	place(`{"outrigger.dev/none":null}`)
	logged("advertising nothing until it is known")
	allocatable(t, 0, limit)
	kubectl(t, "-n", stack.Namespace, "set", "env", daemonset, "KUBERNETES_SERVICE_HOST-")
	allocatable(t, gpus/2, limit)
}
