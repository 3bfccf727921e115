// Package object reads and writes the API objects of this node: the Node and the
// NodeFeature of Node Feature Discovery.
package object

import (
	"context"
	"fmt"
	"time"

	"outrigger.dev/pkg/kube"
)

// Client reads and writes the objects. It is safe for concurrent use.
type Client struct{ api *kube.Client }

// New returns a Client for the node of api.
func New(api *kube.Client) *Client { return &Client{api: api} }

// WatchNode calls deliver with the Node: once when it is known, and again after
// each change of what Node has. deliver must not change what it gets. WatchNode
// returns when ctx ends. It needs the verbs list and watch on Nodes.
func (c *Client) WatchNode(ctx context.Context, deliver func(Node)) {
	kube.Watch(ctx, c.api, kube.Query{Object: c.api.Node()}, func(nodes []Node) {
		for _, n := range nodes {
			deliver(n)
		}
	})
}

// ApplyLabels makes the Node have the labels. It removes those that the agent
// applied before and labels leaves out, unless another manager owns them too, and
// takes over those that another manager owns. If one of them is invalid, it applies
// none.
//
// It needs the verb patch on Nodes. The agent must not have the verb create, or the
// API server would create a Node for a name that does not exist.
func (c *Client) ApplyLabels(ctx context.Context, labels map[string]string) error {
	node := c.api.Node()
	metadata := map[string]any{"name": node.Name}
	if len(labels) > 0 { // an empty map would be owned itself
		metadata["labels"] = labels
	}
	err := c.api.Apply(ctx, node, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": metadata})
	if err != nil {
		return fmt.Errorf("apply labels to node %s: %w", node.Name, err)
	}
	return nil
}

// RemoveCondition removes the conditions that the agent has applied. It needs the verb patch
// on nodes/status.
func (c *Client) RemoveCondition(ctx context.Context) error {
	node := c.api.Node()
	status := node
	status.Subresource = "status"
	err := c.api.Apply(ctx, status, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node.Name}})
	if err != nil {
		return fmt.Errorf("remove the condition from node %s: %w", node.Name, err)
	}
	return nil
}

// ApplyCondition sets the condition of the Node, and leaves the conditions of other
// writers alone. The caller keeps LastTransition while Status does not change. It is
// written as the time of the heartbeat too, so that the API server stores nothing for a
// condition that did not change. It needs the verb patch on nodes/status.
func (c *Client) ApplyCondition(ctx context.Context, cond Condition) error {
	node := c.api.Node()
	if cond.LastTransition.IsZero() {
		return fmt.Errorf("apply condition %s to node %s: the time of its last transition is missing", cond.Type, node.Name)
	}
	since := cond.LastTransition.UTC().Format(time.RFC3339)
	entry := map[string]any{
		"type": cond.Type, "status": cond.Status, "lastTransitionTime": since, "lastHeartbeatTime": since,
	}
	for key, value := range map[string]string{"reason": cond.Reason, "message": cond.Message} {
		if value != "" { // as the API server shows it
			entry[key] = value
		}
	}
	status := node
	status.Subresource = "status"
	err := c.api.Apply(ctx, status, map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node.Name},
		"status": map[string]any{"conditions": []any{entry}},
	})
	if err != nil {
		return fmt.Errorf("apply condition %s to node %s: %w", cond.Type, node.Name, err)
	}
	return nil
}
