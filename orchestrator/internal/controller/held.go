package controller

import (
	"context"

	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/model"
)

// hold returns p. If p is deleted only because somebody deletes the definition of ClusterPolicy, hold returns it as a
// refused policy that is not being deleted, so that no object changes. exists is false if the policy is gone.
func (c *InCluster) hold(ctx context.Context, p model.Policy) (held model.Policy, exists bool, err error) {
	if !p.Deleting {
		return p, true, nil
	}
	reason, exists, err := definition.Held(ctx, c.Client, p)
	if reason != "" {
		p.Deleting, p.Refused = false, reason
	}
	return p, exists, err
}
