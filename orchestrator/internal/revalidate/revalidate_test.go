package revalidate_test

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/revalidate"
)

// node creates a Node.
func node(c clustertest.Cluster, name string, labels map[string]any, ready string, cordoned bool) {
	ref := model.Ref{APIVersion: "v1", Kind: "Node", Name: name}
	c.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": labels}, "spec": map[string]any{"unschedulable": cordoned},
	}})
	c.Patch(ref, "status", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}}})
}

func TestARequest(t *testing.T) {
	c := clustertest.New(t)
	if _, err := revalidate.Start(t.Context(), c.Client, revalidate.Request{}); err == nil || !strings.Contains(err.Error(), "orchestrator.enabled=true") {
		t.Errorf("without a ClusterPolicy: %v", err)
	}
	if err := definition.Apply(t.Context(), c.Client, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	gpu := map[string]any{"nvidia.com/gpu.present": "true"}
	node(c, "n1", gpu, "True", false)
	node(c, "n2", gpu, "True", true)
	node(c, "n3", nil, "True", false)
	node(c, "n4", gpu, "False", false)
	ref := cluster.PolicyRef("cluster-policy")
	policy := ref.Object()
	policy.Object["spec"] = map[string]any{}
	c.Create(policy)

	_, err := revalidate.Start(t.Context(), c.Client, revalidate.Request{Nodes: []string{"n1", "n2", "n3", "n4", "n5"}})
	for _, want := range []string{"n2 is cordoned", "n3 has no label", "n4 is cordoned or not Ready", "no node n5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if _, err := revalidate.Start(t.Context(), c.Client, revalidate.Request{}); err == nil || !strings.Contains(err.Error(), "validator.enabled=true") {
		t.Errorf("without validations: %v", err)
	}
	passed := map[string]any{"name": "nvidia-driver-validation", "state": "Passed", "passed": int64(1), "failed": int64(0), "skipped": int64(0), "of": "rev1"}
	inventory := []any{map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "gpu", "name": "device-plugin"}}
	c.Create(&unstructured.Unstructured{Object: map[string]any{ // of a tenant
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "default", "labels": map[string]any{
			"outrigger.dev/validation": "nvidia-driver-validation", "outrigger.dev/of": "rev2",
		}},
		"spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{"name": "a", "image": "example.com/a:1"}}},
	}})
	set := func() {
		c.Patch(ref, "status", map[string]any{"status": map[string]any{"gpuNodes": int64(1), "readyNodes": int64(1), "inventory": inventory, "stages": []any{map[string]any{
			"name": "container-toolkit", "state": "Ready", "desired": int64(1), "ready": int64(1), "failed": int64(0), "waiting": int64(0), "validations": []any{passed},
		}}}})
	}
	set()
	run, err := revalidate.Start(t.Context(), c.Client, revalidate.Request{Nodes: []string{"n1"}, AllGPUs: true, Copies: true})
	if err != nil {
		t.Fatal(err)
	}
	annotations := c.Get(ref).GetAnnotations()
	if annotations["outrigger.dev/validate"] == "" || annotations["outrigger.dev/validate-on"] != "n1" || annotations["outrigger.dev/validate-with"] != "all-gpus,copies" {
		t.Errorf("the annotations are %v", annotations)
	}
	if _, ended, err := run.Look(t.Context()); ended || err != nil {
		t.Errorf("before the orchestrator has acted: ended %t, %v", ended, err)
	}
	passed["of"] = "rev2"
	set()
	result, ended, err := run.Look(t.Context())
	if !ended || err != nil || result.Failed() != 0 || len(result.Validations[0].Pods) > 0 || result.Validations[0].Stage != "container-toolkit" {
		t.Errorf("ended %t, %+v, %v", ended, result, err)
	}
	if err := run.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := annotations["outrigger.dev/validate"]
	if annotations = c.Get(ref).GetAnnotations(); len(annotations) != 1 || annotations["outrigger.dev/validate"] != asked {
		t.Errorf("after the end, the annotations are %v", annotations)
	}
}
