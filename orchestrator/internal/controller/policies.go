package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pass"
	"outrigger.dev/orchestrator/internal/uninstall"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// finalizer keeps a deleted ClusterPolicy until all of its objects are gone.
const finalizer = definition.Finalizer

// maxEvent is the maximum size of the message of an Event in bytes. The admission policy of the chart rejects
// longer messages.
const maxEvent = 1024

// InCluster implements Policies with the ClusterPolicies of the cluster. The oldest one is in
// effect.
type InCluster struct {
	Client   *cluster.Client
	Observer *observe.Observer
	Log      *slog.Logger

	// last is the policy as the API server returned it after the last write.
	last model.Policy
}

// Current implements Policies.
func (c *InCluster) Current(ctx context.Context) (model.Policy, bool, error) {
	all := c.Observer.Policies()
	if len(all) == 0 {
		return model.Policy{}, false, nil
	}
	for _, p := range all[1:] {
		if err := c.ignore(ctx, p, all[0].Name); err != nil {
			return model.Policy{}, false, err
		}
	}
	p := c.newest(all[0])
	if p.Unreadable != nil {
		return p, false, p.Unreadable
	}
	if !p.Deleting && !slices.Contains(p.Finalizers, finalizer) {
		var err error
		if p, err = definition.SetFinalizers(ctx, c.Client, p, append(slices.Clone(p.Finalizers), finalizer)); err != nil {
			return p, false, err
		}
		c.last = p
	}
	return c.hold(ctx, p)
}

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

// newest returns p, or the result of the last write if the result is a newer version of the same policy.
func (c *InCluster) newest(p model.Policy) model.Policy {
	if c.last.UID == p.UID && cluster.Newer(c.last.Version, p.Version) {
		return c.last
	}
	return p
}

// ignore writes the status of a policy that is not the oldest one. If the policy is being deleted,
// ignore removes the finalizer instead.
func (c *InCluster) ignore(ctx context.Context, p model.Policy, older string) error {
	if p.Deleting && slices.Contains(p.Finalizers, finalizer) {
		return definition.Release(ctx, c.Client, p)
	}
	status := pass.Ignored(p, older, time.Now())
	if p.Deleting || model.HashOf(status) == model.HashOf(p.Status) {
		return nil
	}
	_, err := c.Client.Patch(ctx, cluster.PolicyRef(p.Name), "status", map[string]any{"status": status})
	return err
}

// Publish implements Policies.
func (c *InCluster) Publish(ctx context.Context, p model.Policy, s model.Status) error {
	// A merge patch would keep fields that the new status does not have.
	patch := []any{map[string]any{"op": "add", "path": "/status", "value": s}}
	o, err := c.Client.Patch(ctx, cluster.PolicyRef(p.Name), "status", patch)
	if err == nil {
		c.last = observe.PolicyOf(o)
	}
	return err
}

// Gone implements Policies: it reports leftovers on unreachable nodes, and removes the finalizer.
func (c *InCluster) Gone(ctx context.Context, p model.Policy) error {
	if !slices.Contains(p.Finalizers, finalizer) {
		return nil
	}
	left, err := uninstall.Leftovers(ctx, c.Client)
	if err != nil {
		return err
	}
	for _, line := range left {
		c.Log.Warn("the deletion could not remove an item from a node", "policy", p.Name, "what", line)
	}
	if len(left) > 0 {
		c.Report(ctx, p, []model.Event{{Warning: true, Reason: string(cause.LeftBehind), Message: fmt.Sprintf(
			"%d items are left on nodes that could not be reached, the first is: %s; orchestrator delete --verify lists all", len(left), left[0],
		)}})
	}
	if err := definition.Release(ctx, c.Client, c.newest(p)); err != nil { // the status may have been written since
		return err
	}
	c.Log.Info("all objects of the policy are deleted", "policy", p.Name, "left", len(left))
	return nil
}

// Report implements Policies. An Event that cannot be sent is logged.
func (c *InCluster) Report(ctx context.Context, p model.Policy, events []model.Event) {
	for _, e := range events {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		now := time.Now().UTC()
		stamp := now.Format(time.RFC3339)
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Event",
			// Events about objects without a namespace are in this namespace.
			"metadata":       map[string]any{"namespace": "default", "name": fmt.Sprintf("%s.%x", p.Name, now.UnixNano())},
			"involvedObject": map[string]any{"apiVersion": cluster.PolicyAPI, "kind": cluster.PolicyKind, "name": p.Name, "uid": string(p.UID)},
			"type":           kind, "reason": e.Reason, "message": text.Cut(e.Message, maxEvent), "source": map[string]any{"component": model.FieldManager},
			"firstTimestamp": stamp, "lastTimestamp": stamp, "count": int64(1),
		}}
		if err := c.Client.Create(ctx, o); err != nil {
			c.Log.Warn("cannot send an Event", "reason", e.Reason, "message", e.Message, "err", err)
		}
	}
}
