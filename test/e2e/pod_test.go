//go:build e2e

package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
)

func TestPodComputesOnItsOneGPU(t *testing.T) {
	plugin(t)
	result, err := shared.RunVectorAdd(t.Context(), "vectoradd", limit)
	if err != nil {
		t.Fatal(err)
	}
	if result.Node != gpuNode() {
		t.Errorf("the pod ran on %s, want %s", result.Node, gpuNode())
	}
	for _, want := range []string{"[Vector addition of 50000 elements]", "Test PASSED", "Done"} {
		if !strings.Contains(result.Log, want) {
			t.Errorf("the log lacks %q:\n%s", want, result.Log)
		}
	}
	if len(result.GPUs) != 1 {
		t.Fatalf("the pod saw GPUs %v, want exactly one", result.GPUs)
	}
	if shown := simulate(t, "show", "--json"); !strings.Contains(shown, result.GPUs[0]) {
		t.Errorf("the pod saw GPU %s, which the node does not have:\n%s", result.GPUs[0], shown)
	}
}

// gpuShell is a pod with one GPU and a shell, and with the capability to make
// device nodes that containers have by default.
const gpuShell = `
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: shell
    image: %s
    imagePullPolicy: IfNotPresent
    command: [sleep, "3600"]
    resources: {limits: {nvidia.com/gpu: 1}}
`

// gpuPod starts the pod shell until the test ends, and returns its shell.
func gpuPod(t *testing.T) (shell func(script string) string) {
	t.Helper()
	if err := shared.Apply(t.Context(), fmt.Sprintf(gpuShell, cluster.BusyboxImage)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectlCleanup(t, "delete", "pod", "shell", "--wait") })
	kubectl(t, "wait", "pod/shell", "--for=condition=Ready", "--timeout", limit.String())
	return func(script string) string { return kubectl(t, "exec", "shell", "--", "sh", "-c", script) }
}

func TestPodOpensItsOwnGPUOnly(t *testing.T) {
	plugin(t)
	shell := gpuPod(t)

	nodes := strings.Fields(shell("ls -d /dev/nvidia[0-9]*"))
	if len(nodes) != 1 {
		t.Fatalf("the pod has GPU nodes %v, want exactly one", nodes)
	}
	own := regexp.MustCompile(`\d+$`).FindString(nodes[0])
	foreign := "0"
	if own == foreign {
		foreign = "1"
	}
	// No driver is behind the numbers: a node that may be opened answers that
	// there is no device, one that may not that it is not permitted.
	for node, want := range map[string]string{
		nodes[0]:              "No such device or address",
		"/dev/nvidiactl":      "No such device or address",
		"/tmp/nvidia-own":     "No such device or address",
		"/tmp/nvidia-foreign": "Operation not permitted",
	} {
		script := fmt.Sprintf("mknod /tmp/nvidia-own c 195 %s; mknod /tmp/nvidia-foreign c 195 %s; cat %s 2>&1; rm -f /tmp/nvidia-*", own, foreign, node)
		if got := shell(script); !strings.Contains(got, want) {
			t.Errorf("opening %s answers %q, want %q", node, got, want)
		}
	}
}

func TestNodeWithoutGPUsStaysClean(t *testing.T) {
	plugin(t)
	node := shared.Nodes()[0]
	if got, err := shared.Allocatable(t.Context(), node); err != nil || got != "" {
		t.Errorf("%s advertises %q GPUs (error %v), want none", node, got, err)
	}
	if got := kubectl(t, "get", "pods", "-A", "--selector=app.kubernetes.io/name=device-plugin", "--field-selector=spec.nodeName="+node, "-o", "name"); got != "" {
		t.Errorf("%s runs %s, want no agent there", node, got)
	}
}

func TestPluginLeavesTheHostsDevicesAlone(t *testing.T) {
	plugin(t)
	devices, err := shared.Exec(t.Context(), gpuNode(), "ls", "-A", "/dev")
	if err != nil {
		t.Fatal(err)
	}
	// The agent mounts the host's /dev: what a runtime makes below a container's
	// /dev would be made on the host, and stay there.
	if slices.Contains(strings.Fields(devices), "termination-log") {
		t.Errorf("the plugin's pod left its termination log in the host's /dev:\n%s", devices)
	}
}
