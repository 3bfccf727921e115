//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// drained is a pod of a Deployment with a GPU, one without, and a budget that keeps the first.
const drained = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: drained-%[1]s}
spec:
  selector: {matchLabels: {app: drained-%[1]s}}
  template:
    metadata: {labels: {app: drained-%[1]s}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %[2]s}
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: %[3]s
        imagePullPolicy: IfNotPresent
        command: [sleep, "3600"]
        resources: {limits: %[4]s}
`

const drainedBudget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: drained}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: drained-gpu}}
`

// TestOnlyGPUPodsLeaveTheNode runs the program of the driver loader that evicts pods.
func TestOnlyGPUPodsLeaveTheNode(t *testing.T) {
	plugin(t)
	t.Cleanup(func() {
		kubectlCleanup(t, "uncordon", gpuNode())
		kubectlCleanup(t, "delete", "deployment/drained-gpu", "deployment/drained-cpu", "pdb/drained", "--ignore-not-found", "--wait")
	})
	for _, manifest := range []string{
		fmt.Sprintf(drained, "gpu", gpuNode(), cluster.BusyboxImage, "{nvidia.com/gpu: 1}"),
		fmt.Sprintf(drained, "cpu", gpuNode(), cluster.BusyboxImage, "{cpu: 10m}"), drainedBudget,
	} {
		if err := shared.Apply(t.Context(), manifest); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gpu", "cpu"} {
		kubectl(t, "wait", "deployment/drained-"+name, "--for=condition=Available", "--timeout", limit.String())
	}
	names := func(app string) string {
		return kubectl(t, "get", "pods", "--selector=app=drained-"+app, "--field-selector=spec.nodeName="+gpuNode(), "-o", "jsonpath={.items[*].metadata.name}")
	}
	gpu, cpu := names("gpu"), names("cpu")
	kubectl(t, "cordon", gpuNode())

	const timedOut = 3
	code, out := drain(t, 2)
	if want := `{"event":"blocked","pod":"default/` + gpu + `","budget":"drained"`; code != timedOut || !strings.Contains(out, want) || names("gpu") != gpu {
		t.Fatalf("the program ended with code %d, want 3 and %s:\n%s", code, want, out)
	}
	kubectl(t, "delete", "pdb/drained")
	code, out = drain(t, int(limit.Seconds()))
	if want := `{"event":"evicted","pod":"default/` + gpu + `"}`; code != 0 || !strings.Contains(out, want) {
		t.Fatalf("the program ended with code %d, want 0 and %s:\n%s", code, want, out)
	}
	if names("gpu") != "" || names("cpu") != cpu {
		t.Errorf("the node has the pods %q and %q, want none that holds a GPU, and %q", names("gpu"), names("cpu"), cpu)
	}
}

// drain runs the program on the GPU node, and returns its exit code and what it printed.
func drain(t *testing.T, seconds int) (code int, out string) {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "driver-loader-drain"), "--kubeconfig", shared.Kubeconfig(), "--retry-every", "500ms")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"mode":"gpu-pods","node":%q,"timeoutSeconds":%d}`, gpuNode(), seconds))
	printed, err := cmd.CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode(), string(printed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(printed)
}
