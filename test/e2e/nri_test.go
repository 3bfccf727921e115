//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

const (
	// engine prints the process of the container engine. "containerd config dump", which the toolkit runs,
	// is a process of that name for a moment, and younger.
	engine = "busybox pidof containerd | tr ' ' '\\n' | sort -n | head -n 1"
	// engineState is the config of the container engine, and its process.
	engineState = "find /etc/containerd/ -type f -exec sha256sum {} + | sort; " + engine
)

// TestNRIPlugin has a device plugin that only sets a variable, and no runtime that reads it:
// the NRI plugin of the toolkit gives the GPUs.
func TestNRIPlugin(t *testing.T) {
	pluginWith(t, "deviceListStrategy=envvar")
	allocatable(t, gpus, limit)
	before := onGPUNode(t, engineState)
	toolkit(t, "cdi.nriPluginEnabled=true")
	if after := onGPUNode(t, engineState); after != before {
		t.Errorf("before the installation the engine was\n%s\nand after it\n%s", before, after)
	}
	t.Run("a pod gets the GPU that it was allocated", aPodWithNRI)
	t.Run("a pod gets no GPU that it was not allocated", aPodThatAsksGetsNothing)
	t.Run("also after containerd has restarted", func(t *testing.T) {
		const connected = "nri plugin connected"
		earlier := inToolkitLog(t, connected)
		if err := shared.Restart(t.Context(), "containerd", gpuNode()); err != nil {
			t.Fatal(err)
		}
		// Until then a container starts without asking the plugin.
		eventually(t, "the plugin is connected again", func() bool { return inToolkitLog(t, connected) > earlier })
		aPodWithNRI(t)
	})
	t.Run("nothing twice if the device plugin lists devices by CDI", func(t *testing.T) {
		pluginWith(t)
		allocatable(t, gpus, limit)
		const gave = "gave the container its allocated gpus"
		earlier := inToolkitLog(t, gave)
		if earlier == 0 {
			t.Errorf("the log of the agent lacks %q", gave)
		}
		aPodWithNRI(t)
		if now := inToolkitLog(t, gave); now != earlier {
			t.Errorf("the plugin gave GPUs to %d containers that have them from the engine", now-earlier)
		}
	})
}

// inToolkitLog returns how often a text is in the log of the toolkit's agent.
func inToolkitLog(t *testing.T, text string) int {
	t.Helper()
	return strings.Count(kubectl(t, "-n", stack.Namespace, "logs", "daemonset/container-toolkit", "--tail=-1"), text)
}

func aPodWithNRI(t *testing.T) {
	t.Helper()
	const pod = "by-nri"
	t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/"+pod) })
	result, err := shared.RunVectorAdd(t.Context(), pod, limit)
	if err != nil {
		t.Fatal(err)
	}
	usedOneGPU(t, result)
}

// asking is a pod without an allocation that asks for all GPUs.
const asking = `
apiVersion: v1
kind: Pod
metadata:
  name: asks-for-all
  annotations: {nvidia.cdi.k8s.io/pod: nvidia.com/gpu=all}
spec:
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

func aPodThatAsksGetsNothing(t *testing.T) {
	t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/asks-for-all") })
	if err := shared.Apply(t.Context(), fmt.Sprintf(asking, gpuNode())); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "pod/asks-for-all", "--for=jsonpath={.status.phase}=Succeeded", "--timeout", limit.String())
	if nodes := kubectl(t, "logs", "asks-for-all"); nodes != "0" {
		t.Errorf("the pod sees %s device nodes of NVIDIA, want none", nodes)
	}
}
