//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

const (
	driverPod = "nvidia-driver-validation"
	devicePod = "nvidia-device-plugin-validation"
	cudaFile  = "/run/nvidia/validations/cuda-ready"
)

// validator installs the chart with the validation pods' templates.
func validator(t *testing.T) {
	t.Helper()
	image, err := shared.VectorAddImage()
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(image, ":")
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "validator"); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Install(t.Context(), stack.Release{Chart: "validator", Values: []string{"image.repository=" + repository, "image.tag=" + tag}}); err != nil {
		t.Fatal(err)
	}
}

// validates creates the pod of a PodTemplate, as a person may, and waits for its end. env is
// added to its container.
func validates(t *testing.T, name, phase string, env ...map[string]string) {
	t.Helper()
	var found struct {
		Template map[string]any `json:"template"`
	}
	if err := json.Unmarshal([]byte(kubectl(t, "-n", stack.Namespace, "get", "podtemplate", name, "-o", "json")), &found); err != nil {
		t.Fatal(err)
	}
	pod := found.Template
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	metadata := pod["metadata"].(map[string]any)
	metadata["name"], metadata["namespace"] = name, stack.Namespace
	container := pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	for _, variable := range env {
		all, _ := container["env"].([]any)
		container["env"] = append(all, variable)
	}
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", stack.Namespace, "delete", "pod", name, "--ignore-not-found", "--wait")
	t.Cleanup(func() {
		kubectlCleanup(t, "-n", stack.Namespace, "delete", "pod", name, "--ignore-not-found", "--wait")
	})
	if err := shared.Apply(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "wait", "pod/"+name, "--for=jsonpath={.status.phase}="+phase, "--timeout", limit.String()); err != nil {
		t.Fatalf("%v\n%s\n%s", err, kubectl(t, "-n", stack.Namespace, "describe", "pod", name), kubectl(t, "-n", stack.Namespace, "logs", name, "--ignore-errors"))
	}
}

// TestValidationPods runs both pods on the chart's defaults, and follows the fact cuda-ready to
// the Node.
func TestValidationPods(t *testing.T) {
	api := discovery(t, "readyChain={driver,toolkit,plugin,cuda}")
	toolkit(t)
	plugin(t)
	nodeIs(t, api, gpuNode(), "no CUDA program has run", readyIs("False", "CUDANotReady"))
	validator(t)

	for _, name := range []string{devicePod, driverPod} {
		validates(t, name, "Succeeded")
		if log := kubectl(t, "-n", stack.Namespace, "logs", name); !strings.HasSuffix(log, "Test PASSED\nDone") {
			t.Errorf("the log of %s is\n%s", name, log)
		}
		if shown := kubectl(t, "-n", stack.Namespace, "get", "pod", name); !strings.Contains(shown, "Completed") {
			t.Errorf("kubectl shows\n%s", shown)
		}
	}
	t.Logf("%s:\n%s", cudaFile, onGPUNode(t, "cat "+cudaFile))
	nodeIs(t, api, gpuNode(), "a CUDA program has run", readyIs("True", ""))

	validates(t, driverPod, "Failed", map[string]string{"name": "VECTORADD_DEVICE", "value": "99"})
	nodeIs(t, api, gpuNode(), "the validation has failed", readyIs("False", "CUDANotReady"))
	if said := kubectl(t, "-n", stack.Namespace, "get", "pod", driverPod, "-o", "jsonpath={.status.containerStatuses[0].state.terminated.message}"); !strings.Contains(said, "choose device 99") {
		t.Errorf("the pod says %q", said)
	}

	validates(t, driverPod, "Succeeded")
	// Another boot has another ID.
	onGPUNode(t, "sed -i 's/^OUTRIGGER_BOOT_ID=.*/OUTRIGGER_BOOT_ID=11111111-2222-3333-4444-555555555555/' "+cudaFile)
	nodeIs(t, api, gpuNode(), "the node has rebooted since", readyIs("False", "CUDAStale"))
}
