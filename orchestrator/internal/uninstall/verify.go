package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/validation"
)

// pageSize is the number of objects that one request lists.
const pageSize = 500

// ofPeople are the beginnings of labels that people set to configure agents. They stay.
func ofPeople() []string {
	return []string{
		"nvidia.com/gpu.deploy.", "nvidia.com/gpu.workload.config", "nvidia.com/mig.config", "nvidia.com/device-plugin.config",
		"nvidia.com/gpu-driver-upgrade.skip",
	}
}

// Leftovers returns a line for everything of the agents that is still in the cluster, and
// what deleted objects do not take with them: labels, taints and conditions of nodes, and pods.
func Leftovers(ctx context.Context, c *cluster.Client) ([]string, error) {
	var left []string
	err := each(ctx, c, "nodes", "", func(o *unstructured.Unstructured) { left = append(left, ofNode(o)...) })
	if err != nil {
		return nil, err
	}
	err = each(ctx, c, "pods", "app.kubernetes.io/part-of=outrigger", func(o *unstructured.Unstructured) {
		if !ofAgent(o) {
			return
		}
		node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		if o.GetDeletionTimestamp() != nil {
			phase = "being deleted"
		}
		left = append(left, fmt.Sprintf("node %s: pod %s/%s (%s)", node, o.GetNamespace(), o.GetName(), phase))
	})
	return left, err
}

// ofAgent reports whether a pod is one of an agent or a validation, and not the orchestrator's own,
// of which one may run this.
func ofAgent(pod *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" || pod.GetLabels()[validation.LabelCheck] != ""
}

// each calls visit with all core objects of a resource, page by page.
func each(ctx context.Context, c *cluster.Client, resource, selector string, visit func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: selector}
	for {
		list, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// ofNode returns what agents have written to a node.
func ofNode(o *unstructured.Unstructured) []string {
	var what []string
	for label := range o.GetLabels() {
		if ours(label) {
			what = append(what, "label "+label)
		}
	}
	for annotation := range o.GetAnnotations() {
		if strings.HasPrefix(annotation, "outrigger.dev/") {
			what = append(what, "annotation "+annotation)
		}
	}
	taints, _, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
	for _, t := range taints {
		if m, ok := t.(map[string]any); ok && strings.HasPrefix(fmt.Sprint(m["key"]), "outrigger.dev/") {
			what = append(what, "taint "+fmt.Sprint(m["key"]))
		}
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, t := range conditions {
		if m, ok := t.(map[string]any); ok && m["type"] == "GPUReady" {
			what = append(what, "condition GPUReady")
		}
	}
	slices.Sort(what)
	for i := range what {
		what[i] = "node " + o.GetName() + ": " + what[i]
	}
	return what
}

func ours(label string) bool {
	person := slices.ContainsFunc(ofPeople(), func(prefix string) bool { return strings.HasPrefix(label, prefix) })
	return !person && (strings.HasPrefix(label, "nvidia.com/") || strings.HasPrefix(label, "outrigger.dev/"))
}
