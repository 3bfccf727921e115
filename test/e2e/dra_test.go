//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// draPlugin installs the DRA plugin in place of the device plugin, until the
// test ends.
func draPlugin(t *testing.T, values ...string) {
	t.Helper()
	if err := shared.Uninstall(t.Context(), "device-plugin"); err != nil {
		t.Fatal(err)
	}
	release, err := shared.Agent("dra-plugin", values...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "dra-plugin"); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
}

// published are the names of the devices in the node's ResourceSlices.
func published(t *testing.T) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "get", "resourceslices", "--field-selector=spec.nodeName="+gpuNode()+",spec.driver=gpu.nvidia.com",
		"-o", "jsonpath={.items[*].spec.devices[*].name}"))
}

// claiming is the vectoradd pod with a claim in place of an extended resource.
const claiming = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %[1]s}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: %[3]s
          selectors:
          - cel: {expression: %[4]s}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: %[1]s}]
  initContainers:
  - name: list
    image: %[2]s
    args: [--list]
    resources: {claims: [{name: gpu}]}
  containers:
  - name: vectoradd
    image: %[2]s
    resources: {claims: [{name: gpu}]}
`

// claim runs a pod that claims a device which the expression selects.
func claim(t *testing.T, pod, class, expression string) stack.PodResult {
	t.Helper()
	image, err := shared.VectorAddImage()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/"+pod, "resourceclaimtemplate/"+pod)
	})
	result, err := shared.RunManifest(t.Context(), pod, fmt.Sprintf(claiming, pod, image, class, fmt.Sprintf("%q", expression)), limit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(result.Log, "Test PASSED") {
		t.Errorf("the log lacks that the test passed:\n%s", result.Log)
	}
	return result
}

func TestAPodClaimsADevice(t *testing.T) {
	divide(t, "3g.40gb", "1g.10gb")
	draPlugin(t)
	eventually(t, "the node's devices are published", func() bool { return len(published(t)) == gpus-1+2 })

	result := claim(t, "claims-a-gpu", "gpu.nvidia.com", `device.attributes["gpu.nvidia.com"].index == 5`)
	if shown := simulate(t, "show", "--json"); len(result.GPUs) != 1 || !strings.Contains(shown, result.GPUs[0]) {
		t.Errorf("the pod saw %v, want one GPU of the node", result.GPUs)
	}
	result = claim(t, "claims-a-mig-device", "mig.nvidia.com", `device.attributes["gpu.nvidia.com"].profile == "1g.10gb"`)
	if len(result.GPUs) != 1 || !strings.HasPrefix(result.GPUs[0], "MIG-") {
		t.Errorf("the pod saw %v, want one MIG device", result.GPUs)
	}
	t.Run("the example runs", func(t *testing.T) {
		applyExample(t, "dra.yaml", "")
		jobComputes(t, "dra")
	})

	simulate(t, "xid", "5", "79")
	eventually(t, "the unhealthy GPU is not advertised any more", func() bool { return len(published(t)) == gpus-2+2 })
	simulate(t, "reset", "5")
	eventually(t, "the GPU that was reset is advertised again", func() bool { return len(published(t)) == gpus-1+2 })
}

func TestReadinessFollowsTheDRAPlugin(t *testing.T) {
	api := discovery(t, "readyChain={driver,plugin}")
	nodeIs(t, api, gpuNode(), "the missing plugin is reported", readyIs("False", "Plugin"))
	t.Cleanup(func() {
		if err := setTaints(context.WithoutCancel(t.Context()), api, gpuNode()); err != nil {
			t.Error(err)
		}
	})
	if err := setTaints(t.Context(), api, gpuNode(), keep(), startup()); err != nil {
		t.Fatal(err)
	}
	draPlugin(t)
	n := nodeIs(t, api, gpuNode(), "the node is ready and free of the start-up taint", func(n stack.Node) bool {
		return readyIs("True", "")(n) && !tainted(n, startup())
	})
	if !tainted(n, keep()) {
		t.Errorf("the node has taints %v, want that of another writer too", n.Taints)
	}

	seen := observe(t, api, gpuNode(), readyIs("False", "Plugin"))
	if _, err := shared.Exec(t.Context(), gpuNode(), "busybox", "killall", "-KILL", "dra-plugin"); err != nil {
		t.Fatal(err)
	}
	flips(t, seen, time.Now(), "the DRA plugin was killed")
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin that was started again", readyIs("True", ""))
}

func TestAPodGetsAGPUWithoutAClaimOfItsOwn(t *testing.T) {
	// Not nvidia.com/gpu, the chart's default: a kubelet that has had a device
	// plugin keeps its resource for minutes, with none of it, and the scheduler
	// goes by that.
	const extended = "nvidia.com/claimed-gpu"
	draPlugin(t, "deviceClasses.extendedResourceName="+extended)
	eventually(t, "the node's GPUs are published", func() bool { return len(published(t)) == gpus })
	result, err := shared.RunPod(t.Context(), stack.Pod{Name: "extended", Resource: extended}, limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.GPUs) != 1 || !strings.Contains(result.Log, "Test PASSED") {
		t.Errorf("the pod saw %v, and its log is:\n%s", result.GPUs, result.Log)
	}
}

func TestAGPUIsNeverAdvertisedTwice(t *testing.T) {
	draPlugin(t)
	eventually(t, "the node's GPUs are published", func() bool { return len(published(t)) == gpus })
	release, err := shared.DevicePlugin()
	if err != nil {
		t.Fatal(err)
	}
	release.NoWait = true
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the device plugin reports which agent advertises the GPUs", func() bool {
		out, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", "--selector=app.kubernetes.io/name=device-plugin", "--tail=-1")
		return err == nil && strings.Count(out, "is advertised by dra-plugin") >= gpus
	})
	if got, err := shared.Allocatable(t.Context(), gpuNode()); err != nil || (got != "" && got != "0") {
		t.Errorf("the device plugin advertises %q GPUs (error %v) of the DRA plugin", got, err)
	}
	if err := shared.Uninstall(t.Context(), "dra-plugin"); err != nil {
		t.Fatal(err)
	}
	// What the one gives back the other takes.
	allocatable(t, gpus, limit)
}
