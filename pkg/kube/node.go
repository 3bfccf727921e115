package kube

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Node is what an agent reads of its own Node.
type Node struct {
	Labels map[string]string
	// Owners has, for each label, the field managers that own it, sorted. A label
	// that nobody owns is not there.
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
	// LastTransition is when Status became what it is.
	LastTransition time.Time
}

// Taint keeps pods that do not tolerate it from the Node.
type Taint struct {
	Key, Value string
	// Effect is "NoSchedule", "PreferNoSchedule" or "NoExecute". A Node has one
	// taint of a key and an effect.
	Effect string
}

// object is what is decoded of a Node, or of the metadata of one. Of a Status,
// which stands in its place where a watch fails, it is Message. All else, such as
// the images that a node has, is skipped as it is read.
type object struct {
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
	Message string `json:"message"`
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

// skipped is a value of no interest.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// WatchLabels calls deliver with the labels of the own Node: once when they are
// known, and then whenever they change. The map is not to be changed. It returns
// when ctx ends; what fails before is logged and tried again.
//
// It asks for metadata only, and needs the verbs list and watch on Nodes.
func (c *Client) WatchLabels(ctx context.Context, deliver func(map[string]string)) error {
	w := watch[map[string]string]{
		client: c, one: asMetadata, list: asMetadataList, deliver: deliver,
		part: func(o *object) map[string]string { return o.Metadata.Labels },
		failed: func(in time.Duration, err error) {
			c.cfg.Log.Warn("labels of the node are not known, trying again", "node", c.cfg.Node, "in", in, "err", err)
		},
	}
	return w.run(ctx)
}

// WatchNode calls deliver with the own Node: once when it is known, and then
// whenever it is another one, as far as Node goes. What is delivered is not to be
// changed. It returns when ctx ends; what fails before is logged and tried again.
//
// It needs the verbs list and watch on Nodes.
func (c *Client) WatchNode(ctx context.Context, deliver func(Node)) error {
	w := watch[Node]{
		client: c, one: asJSON, list: asJSON, deliver: deliver, part: (*object).node,
		failed: func(in time.Duration, err error) {
			c.cfg.Log.Warn("the node is not known, trying again", "node", c.cfg.Node, "in", in, "err", err)
		},
	}
	return w.run(ctx)
}

func (o *object) node() Node {
	n := Node{Labels: o.Metadata.Labels, Owners: owners(o.Metadata.ManagedFields), Taints: o.Spec.Taints}
	for _, c := range o.Status.Conditions {
		n.Conditions = append(n.Conditions, Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransition: c.LastTransitionTime,
		})
	}
	return n
}

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
		// One that has both applied and updated, or written the status, has more
		// than one entry.
		slices.Sort(managers)
		of[key] = slices.Compact(managers)
	}
	return of
}

// nodePath is the path of the own Node.
func (c *Client) nodePath() string { return "/api/v1/nodes/" + url.PathEscape(c.cfg.Node) }
