// Package definition applies the CustomResourceDefinition of ClusterPolicy, and finds out whether somebody deletes it.
// Helm applies and deletes it in Jobs with a separate account, because the account of the orchestrator has no right to
// write definitions.
package definition

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/pace"
)

const (
	// Name is the name of the CustomResourceDefinition.
	Name = "clusterpolicies.outrigger.dev"
	// Finalizer keeps a deleted ClusterPolicy until all of its objects are gone. It therefore also keeps a deleted
	// CustomResourceDefinition.
	Finalizer = "outrigger.dev/cleanup"
	// restoredAnnotation has the time of a write by Apply that makes the API server continue a deletion.
	restoredAnnotation = "outrigger.dev/restored"
)

// servedTimeout is how long the API server may take to serve a new definition.
const servedTimeout = 30 * time.Second

// ref names the CustomResourceDefinition.
var ref = model.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: Name} //nolint:gochecknoglobals // it is constant

// Apply applies the definition that this program contains, and waits until the API server serves the kind. If somebody
// deletes the definition, Apply first lets the deletion complete, with all ClusterPolicies. The objects of the policies
// stay.
func Apply(ctx context.Context, client *cluster.Client, log *slog.Logger) error {
	text, err := charts.CRDs()
	if err != nil {
		return fmt.Errorf("read the CRD of this program: %w", err)
	}
	all, err := render.Objects(string(text))
	if err != nil {
		return fmt.Errorf("read the CRD of this program: %w", err)
	}
	if err := complete(ctx, client, log); err != nil {
		return err
	}
	for _, crd := range all {
		if _, err := client.Apply(ctx, crd, cluster.Mode{Adopt: true}); err != nil {
			return err
		}
	}
	return Served(ctx, client)
}

// If the definition is being deleted, complete lets the deletion complete.
func complete(ctx context.Context, client *cluster.Client, log *slog.Logger) error {
	backoff := pace.Backoff{First: 100 * time.Millisecond, Most: time.Second}
	for woken := false; ; {
		live, err := client.Get(ctx, ref)
		if err != nil || live == nil || live.GetDeletionTimestamp() == nil {
			return err
		}
		if err := release(ctx, client, log); err != nil {
			return err
		}
		if !woken {
			// The API server deletes the policies again after each change of the definition, and otherwise after pauses
			// that grow to minutes.
			log.Info("somebody has deleted the definition of ClusterPolicy, restoring it", "name", Name)
			patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{restoredAnnotation: time.Now().UTC().Format(time.RFC3339)}}}
			if _, err := client.Patch(ctx, ref, "", patch); err != nil && !notFound(err) {
				return err
			}
			woken = true
		}
		if !backoff.Pause(ctx) {
			return fmt.Errorf("wait for the deletion of %s: %w", ref, ctx.Err())
		}
	}
}

// release removes the finalizer from all policies.
func release(ctx context.Context, client *cluster.Client, log *slog.Logger) error {
	policies, err := observe.ListPolicies(ctx, client)
	if err != nil {
		return err
	}
	for _, p := range policies {
		if !slices.Contains(p.Finalizers, Finalizer) {
			continue
		}
		log.Info("a policy is deleted with its definition, its objects stay", "policy", p.Name)
		if err := Release(ctx, client, p); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// Release removes the finalizer from a policy. It returns nil if the policy is gone.
func Release(ctx context.Context, client *cluster.Client, p model.Policy) error {
	rest := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == Finalizer })
	_, err := SetFinalizers(ctx, client, p, rest)
	if notFound(err) {
		return nil
	}
	return err
}

// SetFinalizers replaces the finalizers of a policy, and returns the policy. It returns an error if p is outdated.
func SetFinalizers(ctx context.Context, client *cluster.Client, p model.Policy, finalizers []string) (model.Policy, error) {
	o, err := client.Patch(ctx, cluster.PolicyRef(p.Name), "", map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": p.Version,
	}})
	if err != nil {
		return p, err
	}
	return observe.PolicyOf(o), nil
}

func notFound(err error) bool { return cluster.IsNoKind(err) || apierrors.IsNotFound(err) }

// Served waits until the API server serves the kind ClusterPolicy.
func Served(ctx context.Context, client *cluster.Client) error {
	waiting, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	backoff := pace.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	for {
		client.Refresh()
		_, _, err := client.Mapping(waiting, cluster.PolicyRef(""))
		if err == nil {
			return nil
		}
		if !backoff.Pause(waiting) {
			return cmp.Or(ctx.Err(), fmt.Errorf("%w; helm upgrade installs it, and without Helm orchestrator apply-crd", err))
		}
	}
}

// Delete deletes the definition. It returns an error if there are ClusterPolicies.
func Delete(ctx context.Context, client *cluster.Client) error {
	policies, err := observe.ListPolicies(ctx, client)
	if err != nil {
		return err
	}
	if len(policies) > 0 {
		return fmt.Errorf("delete %s: the cluster has the ClusterPolicy %s: delete it first, with orchestrator delete", ref, policies[0].Name)
	}
	return client.Delete(ctx, ref, "")
}

// Held returns why the deletion of a policy must not delete its objects: somebody deletes the definition, which
// deletes the policy. It returns "" for a policy that was deleted before the definition. exists is false if the policy
// is gone.
func Held(ctx context.Context, client *cluster.Client, p model.Policy) (reason string, exists bool, err error) {
	live, err := client.Get(ctx, cluster.PolicyRef(p.Name))
	if err != nil || live == nil || live.GetUID() != p.UID {
		return "", false, err
	}
	crd, err := client.Get(ctx, ref)
	if err != nil || crd == nil || !withDefinition(live, crd) {
		return "", true, err
	}
	return fmt.Sprintf("somebody has deleted the definition %s, which also deletes this ClusterPolicy: all objects of the policy stay, and nothing changes; "+
		"run helm upgrade, which restores both, and then helm uninstall if you want to remove everything. Without Helm, run orchestrator apply-crd, and apply the ClusterPolicy again", Name), true, nil
}

// withDefinition reports whether a policy is deleted because its definition is deleted.
func withDefinition(policy, crd *unstructured.Unstructured) bool {
	at, of := policy.GetDeletionTimestamp(), crd.GetDeletionTimestamp()
	return at != nil && of != nil && !at.Before(of)
}
