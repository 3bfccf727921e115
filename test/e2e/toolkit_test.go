//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// onGPUNode runs a shell command on the GPU node.
func onGPUNode(t *testing.T, command string) string {
	t.Helper()
	out, err := shared.Exec(t.Context(), gpuNode(), "sh", "-c", command)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// What the toolkit may change on a node: the content of files, and links; and whether a
// file was written again, or the container engine restarted.
const (
	toolkitFiles = "cd /; for d in etc/containerd var/run/cdi usr/local/nvidia var/lib/nvidia-container-toolkit dev/char; do " +
		"find $d/ -type f ! -name 'k8s.device-plugin*' -exec sha256sum {} + ; find $d/ -type l -printf '%p %l\\n'; done 2>/dev/null | sort"
	toolkitTimes = "find /etc/containerd/ /var/run/cdi/ /usr/local/nvidia/ -type f ! -name 'k8s.device-plugin*' -printf '%p %T@ %i\\n' | sort; busybox pidof containerd"
	gpuSpec      = "sha256sum /var/run/cdi/nvidia.com-gpu.json"
)

// toolkit installs the container toolkit until the test ends.
func toolkit(t *testing.T, values ...string) {
	t.Helper()
	release, err := shared.Agent("container-toolkit", values...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "container-toolkit"); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
}

// throughRuntime is the vectoradd pod, started by the runtime of the toolkit.
const throughRuntime = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  runtimeClassName: nvidia
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  initContainers:
  - name: list
    image: %[2]s
    args: [--list]
    resources: {limits: {nvidia.com/gpu: 1}}
  containers:
  - name: vectoradd
    image: %[2]s
    resources: {limits: {nvidia.com/gpu: 1}}
`

// asking is a pod without an allocation that asks for all GPUs.
const asking = `
apiVersion: v1
kind: Pod
metadata:
  name: asks-for-all
  annotations: {nvidia.cdi.k8s.io/pod: nvidia.com/gpu=all}
spec:
  %s
  nodeName: %s
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
  - name: list
    image: outrigger.dev/busybox:1
    command: [sh, -c, "ls /dev | grep -c nvidia || true"]
    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]
`

// TestContainerToolkit installs the toolkit, starts a pod through its tools, and removes it.
func TestContainerToolkit(t *testing.T) {
	pluginWith(t, "deviceListStrategy=envvar")
	allocatable(t, gpus, limit)
	before := onGPUNode(t, toolkitFiles)
	t.Run("installed", func(t *testing.T) {
		toolkit(t, "acceptVisibleDevicesEnvvar=true")
		t.Run("a pod gets the GPU that it was allocated", aPodThroughTheRuntime)
		whole := onGPUNode(t, gpuSpec)
		t.Run("the specs follow the MIG devices", func(t *testing.T) {
			divide(t, "3g.40gb", "1g.10gb")
			eventually(t, "the CDI spec has both MIG devices", func() bool {
				return onGPUNode(t, "grep -c '\"name\": \"MIG-' /var/run/cdi/nvidia.com-gpu.json || true") == "2"
			})
		})
		t.Run("a new pod of the agent changes nothing", func(t *testing.T) {
			// The mode of the GPU takes a minute to be noticed.
			eventually(t, "the CDI spec is as before", func() bool { return onGPUNode(t, gpuSpec) == whole })
			settled := onGPUNode(t, toolkitTimes)
			kubectl(t, "-n", stack.Namespace, "delete", "pod", "--wait", "--selector=app.kubernetes.io/name=container-toolkit")
			kubectl(t, "-n", stack.Namespace, "rollout", "status", "daemonset/container-toolkit", "--timeout=90s")
			if now := onGPUNode(t, toolkitTimes); now != settled {
				t.Errorf("the node was\n%s\nand is\n%s", settled, now)
			}
		})
	})
	if after := onGPUNode(t, toolkitFiles); after != before {
		t.Errorf("before the installation the node had\n%s\nand after the removal\n%s", before, after)
	}
}

func aPodThroughTheRuntime(t *testing.T) {
	image, err := shared.VectorAddImage()
	if err != nil {
		t.Fatal(err)
	}
	const pod = "through-the-runtime"
	t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/"+pod) })
	result, err := shared.RunManifest(t.Context(), pod, fmt.Sprintf(throughRuntime, pod, image), limit)
	if err != nil {
		t.Fatal(err)
	}
	usedOneGPU(t, result)
}

// usedOneGPU checks that a pod saw exactly one GPU of the node, and computed on it.
func usedOneGPU(t *testing.T, result stack.PodResult) {
	t.Helper()
	if shown := simulate(t, "show", "--json"); len(result.GPUs) != 1 || !strings.Contains(shown, result.GPUs[0]) {
		t.Errorf("the pod saw %v, want one GPU of the node", result.GPUs)
	}
	if !strings.Contains(result.Log, "Test PASSED") {
		t.Errorf("the log lacks that the test passed:\n%s", result.Log)
	}
}

// TestAPodGetsNoGPUThatItWasNotAllocated has the defaults of the chart.
func TestAPodGetsNoGPUThatItWasNotAllocated(t *testing.T) {
	toolkit(t)
	aPodThatAsksGetsNothing(t, "runtimeClassName: nvidia")
}

// aPodThatAsksGetsNothing runs a pod without an allocation, with one more line in its spec.
func aPodThatAsksGetsNothing(t *testing.T, line string) {
	t.Helper()
	t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/asks-for-all") })
	if err := shared.Apply(t.Context(), fmt.Sprintf(asking, line, gpuNode())); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "pod/asks-for-all", "--for=jsonpath={.status.phase}=Succeeded", "--timeout", limit.String())
	if nodes := kubectl(t, "logs", "asks-for-all"); nodes != "0" {
		t.Errorf("the pod sees %s device nodes of NVIDIA, want none", nodes)
	}
}
