package app_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
)

// TestDriversByNode runs an orchestrator, with the rights of its Helm release, in a cluster whose nodes have several
// kernels and distributions.
func TestDriversByNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(newNamespace("gpu-operator"))
	driver := map[string]any{"enabled": true, "repository": "nvcr.io/nvidia", "version": "580", "usePrecompiled": true}
	w.withRole(map[string]any{"driver": driver})
	node := func(name, kernel, id, version, major string) {
		const nfd = "feature.node.kubernetes.io/"
		w.Create(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": name, "labels": map[string]any{
				"nvidia.com/gpu.present": "true", nfd + "kernel-version.full": kernel,
				nfd + "system-os_release.ID": id, nfd + "system-os_release.VERSION_ID": version, nfd + "system-os_release.VERSION_ID.major": major,
			}},
		}})
	}
	const rhel = "5.14.0-427.40.1.el9_4.x86_64"
	node("a", "6.8.0-60-generic", "ubuntu", "22.04", "22")
	node("b", "6.8.0-60-generic", "ubuntu", "22.04", "22")
	node("c", rhel, "rhel", "9.4", "9")
	defer w.start()()
	policy := cluster.PolicyRef("gpu-operator")
	w.Create(newPolicy(policy.Name, map[string]any{"driver": driver}))
	w.drivers("two kinds of nodes", "580-6.8.0-60-generic-ubuntu22.04", "580-"+rhel+"-rhel9")

	node("d", "6.8.0-64-generic", "ubuntu", "22.04", "22")
	w.drivers("a node with a new kernel", "580-6.8.0-60-generic-ubuntu22.04", "580-6.8.0-64-generic-ubuntu22.04", "580-"+rhel+"-rhel9")

	w.Delete(model.Ref{APIVersion: "v1", Kind: "Node", Name: "c"})
	w.drivers("no node with a kernel", "580-6.8.0-60-generic-ubuntu22.04", "580-6.8.0-64-generic-ubuntu22.04")

	w.Patch(policy, "", map[string]any{"spec": map[string]any{"driver": map[string]any{"version": "580.95.05", "usePrecompiled": nil}}})
	w.drivers("images for a distribution", "580.95.05-ubuntu22.04")

	theft := model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: agents, Name: "gpu-operator-thief"}.Object()
	theft.Object["spec"] = w.Get(daemonSet("driver-loader-ubuntu22-04")).Object["spec"]
	client, err := cluster.Open(cluster.Kubeconfig{Path: w.role}, "test")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Apply(t.Context(), theft, cluster.Mode{Known: true, DryRun: true})
	if err == nil || !strings.Contains(err.Error(), "the Helm release has no DaemonSet gpu-operator-thief") {
		t.Errorf("the token applies a DaemonSet of any name: %v", err)
	}
}

// drivers waits until the DaemonSets of the driver loader have images with exactly these tags.
func (w *world) drivers(what string, tags ...string) {
	w.Helper()
	sets := w.Client.Dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}).Namespace(agents)
	slices.Sort(tags)
	agenttest.Poll(w, fmt.Sprintf("for %s, the drivers %q", what, tags), func() bool {
		list, err := sets.List(w.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=driver-loader"})
		if err != nil {
			return false
		}
		found := map[string]int{}
		for _, o := range list.Items {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			for _, c := range containers {
				image, _ := c.(map[string]any)["image"].(string)
				found[strings.TrimPrefix(image, "nvcr.io/nvidia/driver:")]++
			}
		}
		return slices.Equal(slices.Sorted(maps.Keys(found)), tags) && len(list.Items) == len(tags)
	})
}
