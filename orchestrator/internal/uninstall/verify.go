// Package uninstall finds leftovers of agents in a cluster.
package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
)

// Leftovers returns a line for each pod of an agent, and for each label, annotation and condition
// of an agent on a Node. These remain after the agents' objects were deleted if a node cannot be
// reached.
func Leftovers(ctx context.Context, c *cluster.Client) ([]string, error) {
	var left []string
	agents, err := cluster.Agents()
	if err != nil {
		return nil, err
	}
	err = each(ctx, c, "nodes", "", func(o *unstructured.Unstructured) error {
		lines, err := nodeLeftovers(o, agents)
		left = append(left, lines...)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, c, "pods", "app.kubernetes.io/part-of=outrigger", func(o *unstructured.Unstructured) error {
		if !isAgentPod(o) {
			return nil
		}
		node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		if o.GetDeletionTimestamp() != nil {
			phase = "being deleted"
		}
		left = append(left, fmt.Sprintf("node %s: pod %s/%s (%s)", node, o.GetNamespace(), o.GetName(), phase))
		return nil
	})
	return left, err
}

// isAgentPod reports whether a pod belongs to an agent or a validation. The orchestrator's own pods
// do not count, because this code may run in one.
func isAgentPod(pod *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" || pod.GetLabels()[validation.LabelCheck] != "" || pod.GetLabels()[model.LabelOneForAll] == "true"
}

// each calls visit for all core objects of a resource, page by page.
func each(ctx context.Context, c *cluster.Client, resource, selector string, visit func(*unstructured.Unstructured) error) error {
	from := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource})
	all := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return from.List(ctx, options)
	})
	err := all.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
		return visit(o.(*unstructured.Unstructured))
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return nil
}

// nodeFields are the fields of a Node that agents write, in the form FieldsV1 of metadata.managedFields.
type nodeFields struct {
	Metadata struct {
		Labels      map[string]any `json:"f:labels"`
		Annotations map[string]any `json:"f:annotations"`
	} `json:"f:metadata"`
	Status struct {
		Conditions map[string]any `json:"f:conditions"`
	} `json:"f:status"`
}

// nodeLeftovers returns the fields that agents have written to a Node, according to its managed
// fields. Fields of other managers stay, even below nvidia.com/. Agents apply their own labels. A label that an agent
// has updated belongs to others, and the agent has paused it.
func nodeLeftovers(o *unstructured.Unstructured, agents cluster.Managers) ([]string, error) {
	what := map[string]bool{}
	add := func(kind string, fields map[string]any, before, after string) {
		for field := range fields {
			if name, is := strings.CutPrefix(field, before); is {
				what["node "+o.GetName()+": "+kind+" "+strings.TrimSuffix(name, after)] = true
			}
		}
	}
	for _, entry := range o.GetManagedFields() {
		if !agents.Include(entry.Manager) || entry.FieldsV1 == nil {
			continue
		}
		var fields nodeFields
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, fmt.Errorf("read the managed fields of node %s: %w", o.GetName(), err)
		}
		if entry.Operation != metav1.ManagedFieldsOperationUpdate {
			add("label", fields.Metadata.Labels, "f:", "")
		}
		add("annotation", fields.Metadata.Annotations, "f:", "")
		add("condition", fields.Status.Conditions, `k:{"type":"`, `"}`)
	}
	return slices.Sorted(maps.Keys(what)), nil
}
