package object

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
)

// taintTries bounds the attempts to remove a taint while others change the list.
const taintTries = 5

// RemoveTaint removes the taint with that key and effect, whatever its value, from
// the Node. It writes nothing if the Node does not have it. One manager owns the
// list of taints as a whole, so it cannot be applied: RemoveTaint patches it on the
// condition that the taint is where it was read, and keeps what others add and
// remove at the same moment.
//
// It needs the verbs get and patch on Nodes.
func (c *Client) RemoveTaint(ctx context.Context, t Taint) error {
	if err := c.removeTaint(ctx, t); err != nil {
		return fmt.Errorf("remove taint %s:%s from node %s: %w", t.Key, t.Effect, c.api.Node().Name, err)
	}
	return nil
}

func (c *Client) removeTaint(ctx context.Context, t Taint) error {
	var last kube.Operation
	var failure error
	for range taintTries {
		test, err := c.taintTest(ctx, t)
		if err != nil || test == nil {
			return err
		}
		if apierrors.IsInvalid(failure) && test.Path == last.Path && slices.Equal(test.Value, last.Value) {
			// The taint is where it was: the API server rejects not the test, but the change.
			return failure
		}
		last = *test
		failure = c.api.Patch(ctx, c.api.Node(), []kube.Operation{*test, {Op: "remove", Path: test.Path}})
		// The API server answers 422 to a test that fails, and 409 where it has lost
		// against other writers itself.
		if !apierrors.IsInvalid(failure) && !apierrors.IsConflict(failure) {
			return failure
		}
	}
	return fmt.Errorf("the node changed at each of %d tries: %w", taintTries, failure)
}

// taintTest returns the operation that tests where the Node has the taint now, nil
// if it has none. After the last taint an empty list is left, which the API server
// stores and shows as none (core/v1 NodeSpec.taints: omitempty).
func (c *Client) taintTest(ctx context.Context, t Taint) (*kube.Operation, error) {
	var node struct {
		Spec struct {
			// Each is tested as it was read, with keys that are unknown here.
			Taints []json.RawMessage `json:"taints"`
		} `json:"spec"`
	}
	if err := c.api.Get(ctx, c.api.Node(), &node); err != nil {
		return nil, err
	}
	for i, raw := range node.Spec.Taints {
		var is Taint
		if err := json.Unmarshal(raw, &is); err != nil {
			return nil, fmt.Errorf("decode taint %d: %w", i, err)
		}
		if is.Key == t.Key && is.Effect == t.Effect {
			return &kube.Operation{Op: "test", Path: fmt.Sprintf("/spec/taints/%d", i), Value: raw}, nil
		}
	}
	return nil, nil //nolint:nilnil // there is no such taint
}
