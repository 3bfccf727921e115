//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// nvidiaNamespace is the namespace of the stand-ins of NVIDIA's GPU Operator. Its chart uses stack.OperatorNamespace by
// default, as the chart outrigger of these tests does.
const nvidiaNamespace = "nvidia-gpu-operator"

// nvidiaSets are the DaemonSets of NVIDIA's GPU Operator that the stand-ins replace, by the key of their values: the name,
// and the label that schedules the DaemonSet.
func nvidiaSets() map[string]struct{ name, label string } {
	return map[string]struct{ name, label string }{
		"dcgmExporter": {"nvidia-dcgm-exporter", "dcgm-exporter"},
		"gfd":          {"gpu-feature-discovery", "gpu-feature-discovery"},
		"migManager":   {"nvidia-mig-manager", "mig-manager"},
		"devicePlugin": {"nvidia-device-plugin-daemonset", "device-plugin"},
		"toolkit":      {"nvidia-container-toolkit-daemonset", "container-toolkit"},
	}
}

const deployLabel = "nvidia.com/gpu.deploy."

// clusterPolicyCRD is enough of NVIDIA's CRD to store its objects.
const clusterPolicyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterpolicies.nvidia.com}
spec:
  group: nvidia.com
  scope: Cluster
  names: {kind: ClusterPolicy, plural: clusterpolicies, singular: clusterpolicy}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestMigrate is in the last file, because a toolkit that is handed over leaves its config of the container engine on the node.
//
// TestMigrate moves a node from DaemonSets with the names, the labels and the namespace of NVIDIA's GPU Operator to
// Outrigger, one component at a time, with an undo in the middle. A GPU pod runs throughout. The DaemonSets are stand-ins:
// they run the images of this project, which act like NVIDIA's.
func TestMigrate(t *testing.T) {
	bare(t)
	outrigger := nvidiaStandIns(t)
	allocatable(t, gpus, limit)
	pod := trainingPod(t)
	if err := outrigger.Install(t.Context(), stack.Umbrella, plannedValues(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Outrigger's DaemonSets exist", func() bool {
		sets := kubectl(t, "-n", stack.Namespace, "get", "daemonsets", "-o", "name")
		return !slices.ContainsFunc([]string{"dcgm-exporter", "feature-discovery", "mig-manager", "device-plugin", "container-toolkit"}, func(name string) bool { return !strings.Contains(sets, name) })
	})
	if pods := podsOn(t, stack.Namespace); pods != "" {
		t.Errorf("before the first hand-over, Outrigger has the pods %s", pods)
	}
	plan := migrateCommand(t, "--only", "dcgm-exporter")
	if !strings.Contains(plan, "Nothing has been changed") || podsOn(t, stack.Namespace) != "" {
		t.Errorf("without --yes, it did more than a plan:\n%s", plan)
	}
	handOver(t, "dcgm-exporter", "nvidia-dcgm-exporter")
	handOver(t, "feature-discovery", "gpu-feature-discovery")
	migrateCommand(t, "--undo", "--only", "feature-discovery", "--yes")
	if theirs := podsOn(t, nvidiaNamespace); !strings.Contains(theirs, "gpu-feature-discovery-") || strings.Contains(podsOn(t, stack.Namespace), "feature-discovery") {
		t.Errorf("after the undo, NVIDIA has the pods %s", theirs)
	}
	handOver(t, "feature-discovery", "gpu-feature-discovery")
	standInForOperator(t, "migManager")
	handOver(t, "mig-manager", "nvidia-mig-manager", "--by", "clusterpolicy")
	handOver(t, "device-plugin", "nvidia-device-plugin-daemonset")
	handOver(t, "toolkit", "nvidia-container-toolkit-daemonset")
	if again := migrateCommand(t, "--yes"); !strings.Contains(again, "No node is left to hand over") {
		t.Errorf("a repetition says:\n%s", again)
	}
	allocatable(t, gpus, limit)
	if now := trainingState(t); now != pod {
		t.Errorf("the GPU pod was %q, and is %q", pod, now)
	}
	result, err := shared.RunVectorAdd(t.Context(), "migrated", limit)
	if err != nil {
		t.Fatal(err)
	}
	usedOneGPU(t, result)
}

// nvidiaStandIns installs the stand-ins, and returns Helm for Outrigger's release. The part of feature discovery that
// finds GPUs labels the nodes, as NVIDIA's operator does.
func nvidiaStandIns(t *testing.T) *stack.Helm {
	t.Helper()
	outrigger := helmUntilTheEnd(t)
	theirs, err := shared.Helm(nvidiaNamespace)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"orchestrator": map[string]any{"enabled": false}, "validator": map[string]any{"enabled": false},
		"global": map[string]any{"namespace": nvidiaNamespace, "registry": "outrigger.dev"},
	}
	for key, set := range nvidiaSets() {
		values[key] = map[string]any{"fullnameOverride": set.name, "nodeSelector": map[string]any{deployLabel + set.label: "true"}}
	}
	t.Cleanup(func() {
		// "helm uninstall" deletes the rights of the agents before they have removed their labels.
		kubectlCleanup(t, "-n", nvidiaNamespace, "delete", "daemonsets", "--all", "--wait")
		kubectlCleanup(t, "-n", nvidiaNamespace, "wait", "pods", "--all", "--for=delete", "--timeout="+limit.String())
		if err := theirs.Uninstall(stack.Umbrella); err != nil {
			t.Error(err)
		}
		kubectlCleanup(t, "delete", "namespace", nvidiaNamespace, "--ignore-not-found")
		kubectlCleanup(t, "delete", "crd", "clusterpolicies.nvidia.com", "--ignore-not-found")
		for _, set := range nvidiaSets() {
			kubectlCleanup(t, "label", "node", gpuNode(), deployLabel+set.label+"-")
		}
	})
	// NVIDIA's operator sets this label on nodes whose GPUs can be divided.
	kubectl(t, "label", "node", gpuNode(), "--overwrite", deployLabel+"mig-manager=true")
	if err := shared.Apply(t.Context(), clusterPolicyCRD); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Install(t.Context(), stack.Umbrella, values); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "crd/clusterpolicies.nvidia.com", "--for=condition=Established", "--timeout", limit.String())
	if err := shared.Apply(t.Context(), clusterPolicyOfNVIDIA(t)); err != nil {
		t.Fatal(err)
	}
	for _, set := range nvidiaSets() {
		kubectl(t, "-n", nvidiaNamespace, "rollout", "status", "daemonset/"+set.name, "--timeout", limit.String())
	}
	eventually(t, "NVIDIA's pods run on the node", func() bool {
		pods := podsOn(t, nvidiaNamespace)
		for _, set := range nvidiaSets() {
			if !strings.Contains(pods, set.name+"-") {
				return false
			}
		}
		return true
	})
	return outrigger
}

// clusterPolicyOfNVIDIA returns the ClusterPolicy of a release of NVIDIA's chart, for nodes with a driver of the host.
func clusterPolicyOfNVIDIA(t *testing.T) string {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "orchestrator/internal/migrate/testdata/clusterpolicy-25.10.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec["driver"] = map[string]any{"enabled": false}
	out, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// plannedValues returns the values that the plan writes.
func plannedValues(t *testing.T) map[string]any {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	migrateCommand(t, "--registry", "outrigger.dev", "--write", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// migrateCommand runs "kubectl outrigger migrate".
func migrateCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := shared.Run(t.Context(), "kubectl-outrigger", append([]string{"--kubeconfig", shared.Kubeconfig(), "migrate"}, args...)...)
	if err != nil {
		ctx := context.WithoutCancel(t.Context())
		pods, _ := shared.Kubectl(ctx, "get", "pods", "-A", "-o", "wide")
		t.Fatalf("migrate %s: %v\n%s\n%s", strings.Join(args, " "), err, out, pods)
	}
	return out
}

// handOver hands a component over, and checks that only Outrigger's pods are left.
func handOver(t *testing.T, component, theirs string, more ...string) {
	t.Helper()
	migrateCommand(t, append([]string{"--only", component, "--yes"}, more...)...)
	if left := podsOn(t, nvidiaNamespace); strings.Contains(left, theirs+"-") {
		t.Errorf("after the hand-over of %s, NVIDIA has the pods %s", component, left)
	}
	if podsOn(t, stack.Namespace) == "" {
		t.Errorf("after the hand-over of %s, Outrigger has no pods", component)
	}
}

// standInForOperator deletes a DaemonSet of NVIDIA's as soon as NVIDIA's ClusterPolicy disables it, as NVIDIA's operator does.
func standInForOperator(t *testing.T, key string) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := shared.Kubectl(t.Context(), "wait", "clusterpolicies.nvidia.com/cluster-policy", "--for=jsonpath={.spec."+key+".enabled}=false", "--timeout", limit.String())
		if err == nil {
			_, err = shared.Kubectl(t.Context(), "-n", nvidiaNamespace, "delete", "daemonset", nvidiaSets()[key].name)
		}
		done <- err
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("NVIDIA's ClusterPolicy does not disable %s: %v", key, err)
		}
	})
}

// podsOn returns the names of the pods in a namespace on the GPU node, without the pod that finds GPUs.
func podsOn(t *testing.T, namespace string) string {
	t.Helper()
	names := strings.Fields(kubectl(t, "-n", namespace, "get", "pods", "--field-selector=spec.nodeName="+gpuNode(), "-o", "jsonpath={.items[*].metadata.name}"))
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "-presence-") }), " ")
}

// trainingPod starts a pod with a GPU that runs until the end of the test, and returns its state.
func trainingPod(t *testing.T) string {
	t.Helper()
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "training"},
		"spec": map[string]any{
			"restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "tolerations": []any{map[string]any{"key": "nvidia.com/gpu", "operator": "Exists"}},
			"containers": []any{map[string]any{
				"name": "main", "image": cluster.BusyboxImage, "command": []any{"sh", "-c", idle}, "resources": map[string]any{"limits": map[string]any{stack.GPU: 1}},
			}},
		},
	}
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectlCleanup(t, "delete", "pod", "training", "--ignore-not-found", "--wait") })
	if err := shared.Apply(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "pod/training", "--for=condition=Ready", "--timeout", limit.String())
	return trainingState(t)
}

// trainingState returns the identity of the training pod, and how often it was restarted.
func trainingState(t *testing.T) string {
	t.Helper()
	return kubectl(t, "get", "pod", "training", "-o", "jsonpath={.metadata.uid} {.status.phase} restarts={.status.containerStatuses[0].restartCount}")
}
