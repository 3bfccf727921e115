//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// TestUmbrella installs all agents with one chart, without the orchestrator: each waits on its
// node for what it needs. When the chart is uninstalled, no object of it is left.
func TestUmbrella(t *testing.T) {
	for _, chart := range []string{"device-plugin", "feature-discovery"} {
		if err := shared.Uninstall(t.Context(), chart); err != nil {
			t.Fatal(err)
		}
	}
	before := onGPUNode(t, toolkitFiles)
	values := []string{"orchestrator.enabled=false"}
	for name, key := range map[string]string{
		"container-toolkit": "toolkit", "device-plugin": "devicePlugin", "feature-discovery": "gfd", "vectoradd": "validator",
	} {
		ref, err := shared.Image(name)
		if err != nil {
			t.Fatal(err)
		}
		// The form of NVIDIA's operator.
		registry, image, _ := strings.Cut(ref, "/")
		image, tag, _ := strings.Cut(image, ":")
		values = append(values, key+".repository="+registry, key+".image="+image, key+".version="+tag)
	}
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "outrigger"); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Install(t.Context(), stack.Release{Chart: "outrigger", Values: values}); err != nil {
		t.Fatal(err)
	}
	if err := shared.WaitGPUReady(t.Context(), gpuNode(), limit); err != nil {
		t.Fatal(err)
	}
	chain := kubectl(t, "-n", stack.Namespace, "get", "daemonset", "outrigger-feature-discovery", "-o",
		`jsonpath={.spec.template.spec.containers[0].env[?(@.name=="READY_CHAIN")].value}`)
	if chain != "driver,mig,toolkit,plugin" {
		t.Errorf("GPUReady requires %q, want driver,mig,toolkit,plugin", chain)
	}
	result, err := shared.RunVectorAdd(t.Context(), "umbrella", limit)
	if err != nil || !strings.Contains(result.Log, "Test PASSED") {
		t.Errorf("vectorAdd: %v: %+v", err, result)
	}
	if err := shared.Uninstall(t.Context(), "outrigger"); err != nil {
		t.Fatal(err)
	}
	left := kubectl(t, "get", "all,sa,cm,clusterroles,clusterrolebindings,roles,rolebindings,runtimeclasses,validatingadmissionpolicies",
		"-A", "-l", "app.kubernetes.io/instance=outrigger", "-o", "name")
	if left != "" {
		t.Errorf("objects are left:\n%s", left)
	}
	eventually(t, "the toolkit takes back its changes of the node", func() bool { return onGPUNode(t, toolkitFiles) == before })
}
