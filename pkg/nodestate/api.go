package nodestate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
)

// api reads and writes the Node. Each write returns the resulting Node.
type api interface {
	watch(ctx context.Context, deliver func(Node))
	read(ctx context.Context) (Node, error)
	applyMetadata(ctx context.Context, labels, annotations map[string]string) (Node, error)
	// applyCondition removes the condition that was applied before if c is nil.
	applyCondition(ctx context.Context, c *Condition) (Node, error)
	removeTaint(ctx context.Context, t Taint) (Node, error)
	patch(ctx context.Context, ops []kube.Operation) (Node, error)
}

// server is the api of a Node at an API server.
type server struct{ *kube.Client }

// watch calls deliver with the Node: once when it is known, and again after each change of a field
// of Node except its version. It needs the verbs list and watch on Nodes.
func (s server) watch(ctx context.Context, deliver func(Node)) {
	var last *Node
	kube.Watch(ctx, s.Client, kube.Query{Object: s.Node()}, func(nodes []Node) {
		for _, n := range nodes {
			same := n
			if last != nil {
				same.Version = last.Version
			}
			if last == nil || !reflect.DeepEqual(*last, same) {
				last = &n
				deliver(n)
			}
		}
	})
}

// read needs the verb get on Nodes.
func (s server) read(ctx context.Context) (Node, error) {
	var n Node
	if err := s.Get(ctx, s.Node(), &n); err != nil {
		return n, fmt.Errorf("read node %s: %w", s.Node().Name, err)
	}
	return n, nil
}

// applyMetadata applies labels and annotations to the Node. It removes labels and annotations that
// the agent applied before and that are omitted now, unless another manager also owns them. It
// takes over labels and annotations of other managers. If one of them is invalid, it applies none.
//
// It needs the verb patch on Nodes. The agent must not have the verb create, because the API server
// would then create a Node for a name that does not exist.
func (s server) applyMetadata(ctx context.Context, labels, annotations map[string]string) (Node, error) {
	metadata := map[string]any{"name": s.Node().Name}
	for key, value := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		if len(value) > 0 { // the field manager would own an empty map
			metadata[key] = value
		}
	}
	return s.apply(ctx, "", map[string]any{"metadata": metadata}, "apply labels to")
}

// applyCondition sets the condition of the Node, and does not change the conditions of other
// writers. The caller keeps LastTransition while Status does not change. applyCondition also writes
// LastTransition as the time of the heartbeat, so that the API server stores nothing for an
// unchanged condition. It needs the verb patch on nodes/status.
func (s server) applyCondition(ctx context.Context, c *Condition) (Node, error) {
	object := map[string]any{"metadata": map[string]any{"name": s.Node().Name}}
	if c == nil {
		return s.apply(ctx, "status", object, "remove the condition from")
	}
	since := c.LastTransition.UTC().Format(time.RFC3339)
	entry := map[string]any{
		"type": c.Type, "status": c.Status, "lastTransitionTime": since, "lastHeartbeatTime": since,
	}
	for key, value := range map[string]string{"reason": c.Reason, "message": c.Message} {
		if value != "" { // the API server omits empty fields too
			entry[key] = value
		}
	}
	object["status"] = map[string]any{"conditions": []any{entry}}
	return s.apply(ctx, "status", object, "apply condition "+c.Type+" to")
}

func (s server) apply(ctx context.Context, subresource string, object map[string]any, what string) (Node, error) {
	object["apiVersion"], object["kind"] = "v1", "Node"
	to := s.Node()
	to.Subresource = subresource
	var n Node
	if err := s.Apply(ctx, to, object, &n); err != nil {
		return n, fmt.Errorf("%s node %s: %w", what, s.Node().Name, err)
	}
	return n, nil
}

// patch needs the verb patch on Nodes.
func (s server) patch(ctx context.Context, ops []kube.Operation) (Node, error) {
	var n Node
	err := s.Patch(ctx, s.Node(), ops, &n)
	return n, err
}

// taintTries is the largest number of attempts to remove a taint while others change the list.
const taintTries = 5

// removeTaint removes the taint with this key and effect, and any value, from the Node. It writes
// nothing if the Node does not have the taint. The list of taints as a whole has one owner, so a
// writer cannot apply changes of a single taint. removeTaint therefore patches the list with a test
// that the taint is at the same place as before. This keeps taints that others add or remove at the
// same moment.
//
// It needs the verbs get and patch on Nodes.
func (s server) removeTaint(ctx context.Context, t Taint) (Node, error) {
	n, err := s.withoutTaint(ctx, t)
	if err != nil {
		return n, fmt.Errorf("remove taint %s:%s from node %s: %w", t.Key, t.Effect, s.Node().Name, err)
	}
	return n, nil
}

func (s server) withoutTaint(ctx context.Context, t Taint) (Node, error) {
	var last string
	failure := errors.New("not tried")
	for range taintTries {
		n, test, err := s.taintTest(ctx, t)
		if err != nil || test == nil {
			return n, err
		}
		is := test.Path + string(test.Value)
		if apierrors.IsInvalid(failure) && is == last {
			// The taint is still where it was in the last try. So the API server rejects the
			// change, and not the test of the patch.
			return n, failure
		}
		last = is
		n, failure = s.patch(ctx, []kube.Operation{*test, {Op: "remove", Path: test.Path}})
		// The API server answers 422 to a test that fails. It answers 409 if it has itself lost
		// against other writers.
		if !apierrors.IsInvalid(failure) && !apierrors.IsConflict(failure) {
			return n, failure
		}
	}
	return Node{}, fmt.Errorf("the node changed at each of %d tries: %w", taintTries, failure)
}

// taintTest returns the Node, and an operation that tests the current place of the taint. The
// operation is nil if the Node does not have the taint. After the removal of the last taint, the
// list is empty. The API server stores and shows an empty list as no list (core/v1 NodeSpec.taints:
// omitempty).
func (s server) taintTest(ctx context.Context, t Taint) (Node, *kube.Operation, error) {
	var raw json.RawMessage
	if err := s.Get(ctx, s.Node(), &raw); err != nil {
		return Node{}, nil, err
	}
	var n Node
	var node struct {
		Spec struct {
			// The test compares the taint as it was read, including unknown keys.
			Taints []json.RawMessage `json:"taints"`
		} `json:"spec"`
	}
	if err := errors.Join(json.Unmarshal(raw, &n), json.Unmarshal(raw, &node)); err != nil {
		return n, nil, err
	}
	for i, is := range n.Taints {
		if is.Key == t.Key && is.Effect == t.Effect {
			return n, &kube.Operation{Op: "test", Path: fmt.Sprintf("/spec/taints/%d", i), Value: node.Spec.Taints[i]}, nil
		}
	}
	return n, nil, nil
}
