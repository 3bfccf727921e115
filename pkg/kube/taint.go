package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// taintTries is how often a taint is looked for anew when others change the list
// at the same moment.
const taintTries = 5

// RemoveTaint removes the taint with that key and effect, whatever its value,
// from the own Node. One that is not there is nil, without a write. The list of
// taints has one owner for all of it, so it is not applied: it is patched under
// the condition that the taint is where it was read, so what others add and
// remove at the same moment stays as they want it.
//
// It needs the verbs get and patch on Nodes.
func (c *Client) RemoveTaint(ctx context.Context, t Taint) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.close()
	if err := c.removeTaint(ctx, conn, t); err != nil {
		return fmt.Errorf("remove taint %s:%s from node %s: %w", t.Key, t.Effect, c.cfg.Node, err)
	}
	return nil
}

func (c *Client) removeTaint(ctx context.Context, conn *connection, t Taint) error {
	var last []byte
	var refusal error
	for range taintTries {
		patch, err := c.taintPatch(ctx, conn, t)
		if err != nil || patch == nil {
			return err
		}
		if answered(refusal, http.StatusUnprocessableEntity) && bytes.Equal(patch, last) {
			// The taint is where it was: not the test was refused, but the change.
			return refusal
		}
		last = patch
		refusal = conn.call(ctx, request{
			method: http.MethodPatch, path: c.nodePath(), query: url.Values{"fieldManager": {c.cfg.Agent}},
			accept: asMetadata, content: jsonPatch, body: patch,
		}, nil)
		// The API server answers 422 to a test that fails, and 409 where it has lost
		// against other writers itself.
		if !answered(refusal, http.StatusUnprocessableEntity, http.StatusConflict) {
			return refusal
		}
	}
	return fmt.Errorf("the node changed at each of %d tries: %w", taintTries, refusal)
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// taintPatch returns what removes a taint from the Node as it is now, nil if it
// has none such. Of the last taint an empty list is left, which the API server
// stores and shows as none (core/v1 NodeSpec.taints: omitempty).
func (c *Client) taintPatch(ctx context.Context, conn *connection, t Taint) ([]byte, error) {
	var node struct {
		Spec struct {
			// Each is tested as it was read, with keys that are not known here.
			Taints []json.RawMessage `json:"taints"`
		} `json:"spec"`
	}
	err := conn.call(ctx, request{method: http.MethodGet, path: c.nodePath(), accept: asJSON}, &node)
	if err != nil {
		return nil, err
	}
	for i, raw := range node.Spec.Taints {
		var is Taint
		if err := json.Unmarshal(raw, &is); err != nil {
			return nil, fmt.Errorf("decode taint %d: %w", i, err)
		}
		if is.Key == t.Key && is.Effect == t.Effect {
			at := fmt.Sprintf("/spec/taints/%d", i)
			return json.Marshal([]operation{{Op: "test", Path: at, Value: raw}, {Op: "remove", Path: at}})
		}
	}
	return nil, nil
}
