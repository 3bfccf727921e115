//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// TestHelmTestComputesOnAGPU installs the device plugin with Helm, and runs what "helm test" runs.
func TestHelmTestComputesOnAGPU(t *testing.T) {
	if err := shared.Uninstall(t.Context(), "device-plugin"); err != nil {
		t.Fatal(err)
	}
	helm, err := shared.Helm(stack.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	const pod = "device-plugin-vectoradd"
	t.Cleanup(func() {
		if err := helm.Uninstall("device-plugin"); err != nil {
			t.Error(err)
		}
		kubectlCleanup(t, "-n", stack.Namespace, "delete", "pod", pod, "--ignore-not-found")
		kubectlCleanup(t, "-n", stack.Namespace, "wait", "pods", "--selector=app.kubernetes.io/instance=device-plugin", "--for=delete", "--timeout="+limit.String())
	})
	image := func(name string) map[string]any {
		ref, err := shared.Image(name)
		if err != nil {
			t.Fatal(err)
		}
		repository, tag, _ := strings.Cut(ref, ":")
		return map[string]any{"repository": repository, "tag": tag}
	}
	values := map[string]any{"image": image("device-plugin"), "test": map[string]any{"image": image("vectoradd")}}
	if err := helm.Install(t.Context(), "device-plugin", values); err != nil {
		t.Fatal(err)
	}
	allocatable(t, gpus, limit)
	if err := helm.Test("device-plugin"); err != nil {
		t.Fatal(err)
	}
	if log := kubectl(t, "-n", stack.Namespace, "logs", pod); !strings.Contains(log, "Test PASSED") {
		t.Errorf("the log of the pod is %q", log)
	}
}
