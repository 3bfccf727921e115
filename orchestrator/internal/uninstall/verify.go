// Package uninstall finds what agents have left in a cluster.
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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/validation"
)

// pageSize is the number of objects that one request lists.
const pageSize = 500

// Leftovers returns a line for everything of the agents that is still in the cluster, and
// what deleted objects do not take with them: labels, annotations and conditions of nodes, and pods.
func Leftovers(ctx context.Context, c *cluster.Client) ([]string, error) {
	var left []string
	agents, err := cluster.Agents()
	if err != nil {
		return nil, err
	}
	err = each(ctx, c, "nodes", "", func(o *unstructured.Unstructured) error {
		lines, err := ofNode(o, agents)
		left = append(left, lines...)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, c, "pods", "app.kubernetes.io/part-of=outrigger", func(o *unstructured.Unstructured) error {
		if !ofAgent(o) {
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

// ofAgent reports whether a pod is one of an agent or a validation, and not the orchestrator's own,
// of which one may run this.
func ofAgent(pod *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" || pod.GetLabels()[validation.LabelCheck] != ""
}

// each calls visit with all core objects of a resource, page by page.
func each(ctx context.Context, c *cluster.Client, resource, selector string, visit func(*unstructured.Unstructured) error) error {
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: selector}
	for {
		list, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// ofNode returns what agents have written to a node: their field managers own it. What people and
// other programs have written stays, also below nvidia.com/.
func ofNode(o *unstructured.Unstructured, agents cluster.Managers) ([]string, error) {
	what := map[string]bool{}
	for _, entry := range o.GetManagedFields() {
		if !agents.Include(entry.Manager) || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      keys `json:"f:labels"`
				Annotations keys `json:"f:annotations"`
			} `json:"f:metadata"`
			Status struct {
				Conditions keys `json:"f:conditions"`
			} `json:"f:status"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, fmt.Errorf("read the managed fields of node %s: %w", o.GetName(), err)
		}
		for label := range fields.Metadata.Labels {
			what["label "+label] = true
		}
		for annotation := range fields.Metadata.Annotations {
			what["annotation "+annotation] = true
		}
		for condition := range fields.Status.Conditions {
			what["condition "+condition] = true
		}
	}
	var lines []string
	for _, line := range slices.Sorted(maps.Keys(what)) {
		lines = append(lines, "node "+o.GetName()+": "+line)
	}
	return lines, nil
}

// keys are those of a map of managed fields (API reference, FieldsV1): f:NAME for the key of a map,
// and k:{"type":"NAME"} for a condition. "." is the map itself.
type keys map[string]bool

func (k *keys) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*k = keys{}
	for key := range all {
		if name, ok := strings.CutPrefix(key, "f:"); ok {
			(*k)[name] = true
		}
		if of, ok := strings.CutPrefix(key, "k:"); ok {
			var condition struct{ Type string }
			if err := json.Unmarshal([]byte(of), &condition); err != nil {
				return err
			}
			(*k)[condition.Type] = true
		}
	}
	return nil
}
