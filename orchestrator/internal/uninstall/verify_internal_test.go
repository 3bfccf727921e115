package uninstall

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
)

func TestOfNode(t *testing.T) {
	managed := func(manager, operation, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	label := func(name string) string { return `{"f:metadata":{"f:labels":{".":{},"f:` + name + `":{}}}}` }
	cases := map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    []string
	}{
		"nobody has written to it": {},
		"what people and other programs have written stays": {managed: []metav1.ManagedFieldsEntry{
			managed("kubectl-label", "Update", label("nvidia.com/gpu.deploy.device-plugin")), managed("nfd-master", "Apply", label("nvidia.com/gpu.present")),
			managed("kubelet", "Update", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:type":{}}}}}`),
		}},
		"labels of others that agents have paused stay": {
			managed: []metav1.ManagedFieldsEntry{
				managed("driver-loader", "Update", label("nvidia.com/gpu.deploy.client")), managed("mig-manager", "Update", label("example.org/monitor")),
				managed("mig-manager", "Update", `{"f:metadata":{"f:annotations":{"f:outrigger.dev/mig-config-cordoned":{}}}}`),
			},
			want: []string{"node n: annotation outrigger.dev/mig-config-cordoned"},
		},
		"what agents have written": {
			managed: []metav1.ManagedFieldsEntry{
				managed("feature-discovery", "Apply", label("nvidia.com/gpu.product")), managed("feature-discovery-presence", "Apply", label("nvidia.com/gpu.present")),
				managed("feature-discovery", "Apply", `{"f:status":{"f:conditions":{"k:{\"type\":\"GPUReady\"}":{".":{},"f:type":{}}}}}`),
				managed("device-plugin", "Apply", `{"f:metadata":{"f:annotations":{"f:outrigger.dev/x":{}}}}`),
			},
			want: []string{
				"node n: annotation outrigger.dev/x", "node n: condition GPUReady", "node n: label nvidia.com/gpu.present", "node n: label nvidia.com/gpu.product",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetName("n")
			o.SetManagedFields(c.managed)
			agents, err := cluster.Agents()
			if err != nil {
				t.Fatal(err)
			}
			got, err := nodeLeftovers(o, agents)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestOfAgent(t *testing.T) {
	owned := func(kind string, labels map[string]string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		yes := true
		if kind != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: "x", Controller: &yes}})
		}
		o.SetLabels(labels)
		return o
	}
	cases := map[string]struct {
		pod  *unstructured.Unstructured
		want bool
	}{
		"an agent":                      {owned("DaemonSet", nil), true},
		"the Deployment of an agent":    {owned("ReplicaSet", map[string]string{"outrigger.dev/one-for-all-pools": "true"}), true},
		"a validation":                  {owned("", map[string]string{"outrigger.dev/validation": "x"}), true},
		"the orchestrator":              {owned("ReplicaSet", nil), false},
		"the Job that Helm runs before": {owned("Job", nil), false},
	}
	for name, c := range cases {
		if got := isAgentPod(c.pod); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
