package kube

import (
	"context"
	"fmt"
	"time"
)

// ApplyLabels has the own Node carry the labels. Those that it applied before and
// does not name now are removed, unless another manager owns them too; so none
// removes all. A label of another manager becomes the agent's where it is named.
// All are applied or none is: one with a value that no label may have is an error
// for all.
//
// It needs the verb patch on Nodes. It must not have the verb create: the API
// server would make a Node where there is none of that name.
func (c *Client) ApplyLabels(ctx context.Context, labels map[string]string) error {
	metadata := map[string]any{"name": c.cfg.Node}
	if len(labels) > 0 { // the empty map itself could be owned
		metadata["labels"] = labels
	}
	err := c.apply(ctx, c.nodePath(), map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": metadata})
	if err != nil {
		return fmt.Errorf("apply labels to node %s: %w", c.cfg.Node, err)
	}
	return nil
}

// ApplyCondition has the own Node carry the condition, beside those of others.
// The caller keeps LastTransition while Status does not change; it is written as
// the time of the heartbeat too, so that a condition that says nothing new is no
// write to the store. It needs the verb patch on nodes/status.
func (c *Client) ApplyCondition(ctx context.Context, cond Condition) error {
	if cond.LastTransition.IsZero() {
		return fmt.Errorf("apply condition %s to node %s: no time of its last transition", cond.Type, c.cfg.Node)
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
	err := c.apply(ctx, c.nodePath()+"/status", map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": c.cfg.Node},
		"status": map[string]any{"conditions": []any{entry}},
	})
	if err != nil {
		return fmt.Errorf("apply condition %s to node %s: %w", cond.Type, c.cfg.Node, err)
	}
	return nil
}
