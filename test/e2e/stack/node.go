package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Node has the parts of a Node object that an agent may write, and the resources that the kubelet
// reports.
type Node struct {
	// Version is the resourceVersion as a number. It orders the states of Nodes in time.
	Version     uint64
	Labels      map[string]string
	Annotations map[string]string
	// Unschedulable is set on a cordoned Node.
	Unschedulable bool
	Conditions    map[string]Condition
	Taints        []Taint
	// Allocatable has the number of each resource that the kubelet offers.
	Allocatable map[string]string
	// Owners holds the field managers of each label.
	Owners map[string][]string
}

// Condition is a condition of an object.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Taint is a taint of a Node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// NodePath returns the path of a Node at the API server.
func NodePath(name string) string { return "/api/v1/nodes/" + name }

// Node reads a Node.
func (a *API) Node(ctx context.Context, name string) (Node, error) {
	var n object
	if err := a.Get(ctx, NodePath(name), &n); err != nil {
		return Node{}, err
	}
	return n.node(), nil
}

// WatchNode calls see with each state of a Node, the current state first, until see returns false.
func (a *API) WatchNode(ctx context.Context, name string, see func(Node) (more bool)) error {
	// A watch without a resourceVersion may begin with an object that is older than earlier writes.
	var first object
	if err := a.Get(ctx, NodePath(name), &first); err != nil {
		return err
	}
	if !see(first.node()) {
		return nil
	}
	query := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + name}, "resourceVersion": {first.Metadata.ResourceVersion}}
	body, err := a.open(ctx, "GET", "/api/v1/nodes?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	for decoder := json.NewDecoder(body); ; {
		var event struct {
			Type   string
			Object object
		}
		if err := decoder.Decode(&event); err != nil {
			return fmt.Errorf("watch node %s: %w", name, err)
		}
		if event.Type != "MODIFIED" {
			return fmt.Errorf("watch node %s: event %s", name, event.Type)
		}
		if !see(event.Object.node()) {
			return nil
		}
	}
}

// errUnseen is the error of WaitNode if the time limit passes.
var errUnseen = errors.New("not seen in time")

// WaitNode waits until holds returns true for a Node, and returns the Node. On an error, it returns
// the last state that it has seen.
func (a *API) WaitNode(ctx context.Context, name string, limit time.Duration, holds func(Node) bool) (Node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errUnseen)
	defer cancel()
	var last Node
	err := a.WatchNode(ctx, name, func(n Node) bool {
		last = n
		return !holds(n)
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return last, err
}

// object is a Node object in the JSON of the API server.
type object struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		ManagedFields   []struct {
			Manager  string `json:"manager"`
			FieldsV1 struct {
				Metadata struct {
					Labels map[string]json.RawMessage `json:"f:labels"`
				} `json:"f:metadata"`
			} `json:"fieldsV1"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool    `json:"unschedulable"`
		Taints        []Taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions  []Condition       `json:"conditions"`
		Allocatable map[string]string `json:"allocatable"`
	} `json:"status"`
}

func (o object) node() Node {
	version, _ := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64) // a resourceVersion is always a number
	n := Node{
		Version:     version,
		Labels:      o.Metadata.Labels,
		Annotations: o.Metadata.Annotations, Unschedulable: o.Spec.Unschedulable,
		Conditions:  map[string]Condition{},
		Taints:      o.Spec.Taints,
		Allocatable: o.Status.Allocatable,
		Owners:      map[string][]string{},
	}
	for _, c := range o.Status.Conditions {
		n.Conditions[c.Type] = c
	}
	for _, fields := range o.Metadata.ManagedFields {
		for field := range fields.FieldsV1.Metadata.Labels {
			if key, ok := strings.CutPrefix(field, "f:"); ok {
				n.Owners[key] = append(n.Owners[key], fields.Manager)
			}
		}
	}
	return n
}
