package object

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Node is the part of a Node that feature discovery reads.
type Node struct {
	Labels map[string]string
	// Owners has, for each label, the field managers that own it, sorted. It leaves
	// out labels that no manager owns.
	Owners     map[string][]string
	Conditions []Condition
	Taints     []Taint
}

// Condition is one of a Node's conditions.
type Condition struct {
	// Type is the name, "GPUReady"; a Node has one condition of a type.
	Type string
	// Status is "True", "False" or "Unknown".
	Status string
	// Reason is one word in CamelCase, Message is for people.
	Reason, Message string
	// LastTransition is when Status last changed.
	LastTransition time.Time
}

// Taint keeps pods that do not tolerate it from the Node.
type Taint struct {
	Key, Value string
	// Effect is "NoSchedule", "PreferNoSchedule" or "NoExecute". A Node has one
	// taint of a key and an effect.
	Effect string
}

// UnmarshalJSON decodes a Node of the core API. It skips everything else of it,
// such as the images of the node.
func (n *Node) UnmarshalJSON(data []byte) error {
	var w struct {
		Metadata struct {
			Labels        map[string]string `json:"labels"`
			ManagedFields []managed         `json:"managedFields"`
		} `json:"metadata"`
		Spec struct {
			Taints []Taint `json:"taints"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type, Status, Reason, Message string
				LastTransitionTime            time.Time
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*n = Node{Labels: w.Metadata.Labels, Owners: owners(w.Metadata.ManagedFields), Taints: w.Spec.Taints}
	for _, c := range w.Status.Conditions {
		n.Conditions = append(n.Conditions, Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransition: c.LastTransitionTime,
		})
	}
	return nil
}

// managed is what one field manager owns, as far as it is labels. The form is
// FieldsV1 (API reference, ObjectMeta.managedFields).
type managed struct {
	Manager string `json:"manager"`
	Fields  struct {
		Metadata struct {
			Labels map[string]skipped `json:"f:labels"`
		} `json:"f:metadata"`
	} `json:"fieldsV1"`
}

// skipped is a value that nobody needs.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// owners returns the managers of each label.
func owners(all []managed) map[string][]string {
	of := map[string][]string{}
	for _, m := range all {
		for field := range m.Fields.Metadata.Labels {
			// "." stands for the map of labels itself.
			if key, is := strings.CutPrefix(field, "f:"); is {
				of[key] = append(of[key], m.Manager)
			}
		}
	}
	for key, managers := range of {
		// A manager that has both applied and updated, or written the status, has
		// several entries.
		slices.Sort(managers)
		of[key] = slices.Compact(managers)
	}
	return of
}
