package nodestate

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Node is the part of a Node that writers read.
type Node struct {
	// Version is the resourceVersion. Nodes that differ only in it are the same.
	Version             string
	Labels, Annotations map[string]string
	// Managed has the labels and annotations that each field manager owns.
	Managed []Managed
	// Unschedulable is set while the Node is cordoned.
	Unschedulable bool
	Taints        []Taint
	Conditions    []Condition
	// Capacity has quantities by resource. It includes unhealthy devices.
	Capacity map[string]string
}

// Managed has the keys that a field manager owns, sorted.
type Managed struct {
	Manager string
	// Applied is set for keys from server-side apply. If the manager applies again and omits a key,
	// the API server removes it.
	Applied             bool
	Labels, Annotations []string
}

// Condition is one of a Node's conditions.
type Condition struct {
	// Type is the name, such as "GPUReady". A Node has one condition of a type.
	Type string
	// Status is "True", "False" or "Unknown".
	Status string
	// Reason is one word in CamelCase. Message is for people.
	Reason, Message string
	// LastTransition is the time of the last change of Status.
	LastTransition time.Time
}

// Taint keeps pods that do not tolerate it from the Node.
type Taint struct {
	Key, Value string
	// Effect is "NoSchedule", "PreferNoSchedule" or "NoExecute". A Node has one taint with the same
	// key and effect.
	Effect string
}

// UnmarshalJSON decodes a Node of the core API. It skips all other fields, such as the images of
// the node.
func (n *Node) UnmarshalJSON(data []byte) error {
	var w struct {
		Metadata struct {
			ResourceVersion     string
			Labels, Annotations map[string]string
			ManagedFields       []managedFields
		}
		Spec struct {
			Unschedulable bool
			Taints        []Taint
		}
		Status struct {
			Capacity   map[string]string
			Conditions []struct {
				Type, Status, Reason, Message string
				LastTransitionTime            time.Time
			}
		}
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*n = Node{
		Version: w.Metadata.ResourceVersion, Labels: w.Metadata.Labels, Annotations: w.Metadata.Annotations,
		Managed: owners(w.Metadata.ManagedFields), Unschedulable: w.Spec.Unschedulable, Taints: w.Spec.Taints,
		Capacity: w.Status.Capacity,
	}
	for _, c := range w.Status.Conditions {
		n.Conditions = append(n.Conditions, Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransition: c.LastTransitionTime,
		})
	}
	return nil
}

// managedFields has the labels and annotations that one field manager owns, in the form FieldsV1
// (API reference, ObjectMeta.managedFields).
type managedFields struct {
	Manager, Operation, Subresource string
	Fields                          struct {
		Metadata struct {
			Labels      map[string]ignoredValue `json:"f:labels"`
			Annotations map[string]ignoredValue `json:"f:annotations"`
		} `json:"f:metadata"`
	} `json:"fieldsV1"`
}

// ignoredValue is a value that is not decoded.
type ignoredValue struct{}

func (*ignoredValue) UnmarshalJSON([]byte) error { return nil }

// owners returns the managers that own labels or annotations.
func owners(all []managedFields) []Managed {
	var out []Managed
	for _, m := range all {
		is := Managed{
			Manager: m.Manager, Applied: m.Operation == "Apply" && m.Subresource == "",
			Labels: keys(m.Fields.Metadata.Labels), Annotations: keys(m.Fields.Metadata.Annotations),
		}
		if len(is.Labels)+len(is.Annotations) > 0 {
			out = append(out, is)
		}
	}
	return out
}

// keys returns the keys in the fields of a map. The field "." stands for the map itself.
func keys(fields map[string]ignoredValue) []string {
	var out []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if key, is := strings.CutPrefix(field, "f:"); is {
			out = append(out, key)
		}
	}
	return out
}

// applied returns the labels and annotations that a manager has applied.
func (n Node) applied(manager string) (labels, annotations []string) {
	for _, m := range n.Managed {
		if m.Applied && m.Manager == manager {
			return m.Labels, m.Annotations
		}
	}
	return nil, nil
}

// ownedByOthers reports whether only other managers own a label.
func (n Node) ownedByOthers(label, manager string) bool {
	others := false
	for _, m := range n.Managed {
		if slices.Contains(m.Labels, label) {
			if m.Manager == manager {
				return false
			}
			others = true
		}
	}
	return others
}

// older reports whether n was read before other. The API server increments versions (API
// conventions, "Resource versions").
func (n Node) older(other Node) bool {
	a, errA := strconv.ParseUint(n.Version, 10, 64)
	b, errB := strconv.ParseUint(other.Version, 10, 64)
	return errA == nil && errB == nil && a < b
}
