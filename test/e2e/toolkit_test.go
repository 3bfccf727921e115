//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
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

// What the toolkit may change on a node: the content of files, links, and the folder of its
// tools; and whether a file was written again, or the container engine restarted.
const (
	toolkitFiles = "cd /; { for d in etc/containerd var/run/cdi usr/local/nvidia var/lib/nvidia-container-toolkit dev/char; do " +
		"find $d/ -type f ! -name 'k8s.device-plugin*' -exec sha256sum {} + ; find $d/ -type l -printf '%p %l\\n'; done; ls -d usr/local/nvidia; } 2>/dev/null | sort"
	toolkitTimes = "find /etc/containerd/ /var/run/cdi/ /usr/local/nvidia/ -type f -printf '%p %T@ %i\\n' | " + stack.WithoutOldTools + " | sort; " + engine
	gpuSpec      = "/var/run/cdi/nvidia.com-gpu.json"
)

// toolkit installs the container toolkit until the test ends.
func toolkit(t *testing.T, values ...string) {
	t.Helper()
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "container-toolkit"); err != nil {
			t.Error(err)
		}
	})
	// The removal of an earlier toolkit restarts containerd. In this cluster, the agent finds the program of
	// containerd only while it runs.
	eventually(t, "containerd runs", func() bool { return onGPUNode(t, engine) != "" })
	if err := shared.InstallContainerToolkit(t.Context(), values...); err != nil {
		t.Fatal(err)
	}
}

// toolkitIsReplaced replaces the pod of the agent, which has to change nothing on the node.
func toolkitIsReplaced(t *testing.T) {
	t.Helper()
	settled := onGPUNode(t, toolkitTimes)
	kubectl(t, "-n", stack.Namespace, "rollout", "restart", "daemonset/container-toolkit")
	kubectl(t, "-n", stack.Namespace, "rollout", "status", "daemonset/container-toolkit", "--timeout=4m")
	if now := onGPUNode(t, toolkitTimes); now != settled {
		t.Errorf("the node was\n%s\nand is\n%s", settled, now)
	}
}

// TestContainerToolkit installs the toolkit, starts pods through its tools, and removes it.
func TestContainerToolkit(t *testing.T) {
	pluginWith(t, "deviceListStrategy=envvar")
	allocatable(t, gpus, limit)
	before := onGPUNode(t, toolkitFiles)
	t.Run("installed", func(t *testing.T) {
		toolkit(t, "acceptVisibleDevicesEnvvar=true")
		t.Run("a pod gets the GPU that it was allocated", func(t *testing.T) { aPodThroughTheRuntime(t) })
		t.Run("a pod waits for its GPU, and says so", aPodWaitsForItsGPU)
		t.Run("the exporter needs no privileges", withoutPrivileges)
		sum := "sha256sum " + gpuSpec
		whole := onGPUNode(t, sum)
		t.Run("the specs follow the MIG devices", func(t *testing.T) {
			divide(t, "3g.40gb", "1g.10gb")
			eventually(t, "the CDI spec has both MIG devices", func() bool {
				return onGPUNode(t, "grep -c '\"name\": \"MIG-' "+gpuSpec+" || true") == "2"
			})
		})
		t.Run("a new pod of the agent changes nothing", func(t *testing.T) {
			eventually(t, "the CDI spec is as before", func() bool { return onGPUNode(t, sum) == whole })
			toolkitIsReplaced(t)
		})
	})
	if after := onGPUNode(t, toolkitFiles); after != before {
		t.Errorf("before the installation the node had\n%s\nand after the removal\n%s", before, after)
	}
}

// aPodThroughTheRuntime runs vectorAdd in a pod that the runtime of the toolkit starts, and
// returns how containerd started it.
func aPodThroughTheRuntime(t *testing.T) stack.Start {
	t.Helper()
	const pod = "through-the-runtime"
	t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/"+pod) })
	result, err := shared.RunPod(t.Context(), stack.Pod{Name: pod, RuntimeClass: "nvidia"}, limit)
	if err != nil {
		t.Fatal(err)
	}
	usedOneGPU(t, result)
	start, err := shared.Started(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if start.Runtime != stack.Tools+"nvidia-container-runtime" {
		t.Errorf("the pod was started by %q", start.Runtime)
	}
	return start
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

// listing is a pod that the runtime of the toolkit starts, and that lists its GPUs. Its
// second argument is what follows the image of its container.
const listing = `
apiVersion: v1
kind: Pod
metadata: {name: lists-gpus}
spec:
  runtimeClassName: nvidia
  nodeName: %s
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
  - name: list
    image: %s
`

// lists applies the pod until the test ends.
func lists(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "pod/lists-gpus") })
	if err := shared.Apply(t.Context(), fmt.Sprintf(listing, gpuNode(), fmt.Sprintf(format, args...))); err != nil {
		t.Fatal(err)
	}
}

// says waits until kubectl describe shows texts for the pod.
func says(t *testing.T, texts ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("kubectl describe pod shows %q", texts), func() bool {
		shown := kubectl(t, "describe", "pod", "lists-gpus")
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(shown, text) })
	})
}

func succeeds(t *testing.T) string {
	t.Helper()
	kubectl(t, "wait", "pod/lists-gpus", "--for=jsonpath={.status.phase}=Succeeded", "--timeout", limit.String())
	return kubectl(t, "logs", "lists-gpus")
}

// aPodWaitsForItsGPU takes the GPUs out of the CDI spec, as if they were new, while the
// agent cannot put them back.
func aPodWaitsForItsGPU(t *testing.T) {
	image, err := shared.VectorAddImage()
	if err != nil {
		t.Fatal(err)
	}
	resume := func() error {
		_, err := shared.Exec(context.WithoutCancel(t.Context()), gpuNode(), "busybox", "killall", "-CONT", "container-toolkit")
		return err
	}
	onGPUNode(t, "busybox killall -STOP container-toolkit")
	t.Cleanup(func() {
		if err := resume(); err != nil {
			t.Error(err)
		}
	})
	onGPUNode(t, `sed -i 's/"name": "GPU-/"name": "other-/' `+gpuSpec)
	lists(t, "%s\n    args: [--list]\n    resources: {limits: {nvidia.com/gpu: 1}}\n", image)
	says(t, "unresolvable CDI devices nvidia.com/gpu=GPU-", "see the log of the container toolkit's agent")
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	if log := succeeds(t); strings.Count(log, "GPU-") != 1 {
		t.Errorf("the pod lists %q, want one GPU", log)
	}
}

// TestContainerToolkitWithDefaults has the defaults of the charts: the GPUs come from the
// device plugin's CDI spec, and variables give none.
func TestContainerToolkitWithDefaults(t *testing.T) {
	plugin(t)
	toolkit(t)
	t.Run("a pod gets the GPU that it was allocated", func(t *testing.T) {
		eventually(t, "the device plugin's CDI spec names the hook", func() bool {
			return onGPUNode(t, "grep -c "+stack.Tools+"nvidia-cdi-hook "+pluginSpec+" || true") != "0"
		})
		if start := aPodThroughTheRuntime(t); !start.ByToolkit() {
			t.Errorf("the pod was started by %+v, want a hook of the toolkit as well", start)
		}
	})
	t.Run("a new pod of the agent changes nothing", toolkitIsReplaced)
	t.Run("a pod without an allocation gets none", func(t *testing.T) {
		lists(t, "%s\n    command: [sh, -c, \"ls /dev | grep -c nvidia || true\"]\n    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n", "outrigger.dev/busybox:1")
		if nodes := succeeds(t); nodes != "0" {
			t.Errorf("the pod sees %s device nodes of NVIDIA, want none", nodes)
		}
	})
	t.Run("a pod that names a GPU is refused", func(t *testing.T) {
		lists(t, "%s\n    command: [\"true\"]\n    env: [{name: NVIDIA_VISIBLE_DEVICES, value: \"0\"}]\n", "outrigger.dev/busybox:1")
		says(t, "NVIDIA_VISIBLE_DEVICES=0 names a GPU, but the container is not privileged", "acceptVisibleDevicesEnvvar in the chart")
	})
}
