package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
)

// releaseLabel is the label with the Helm release of a ClusterPolicy.
const releaseLabel = "app.kubernetes.io/instance"

// The annotations of a ClusterPolicy.
const (
	// Validate repeats the validations with each new value. ValidateOn and ValidateWith say where and with which tests
	// (see model.Repetition).
	Validate     = "outrigger.dev/validate"
	ValidateOn   = "outrigger.dev/validate-on"
	ValidateWith = "outrigger.dev/validate-with"
	// adoptAnnotation permits taking over objects of other programs, if it is "true".
	adoptAnnotation = "outrigger.dev/adopt"
)

// FollowPolicies starts to observe the ClusterPolicies until ctx ends.
func (o *Observer) FollowPolicies(ctx context.Context) error {
	gvr, _, err := o.client.Mapping(ctx, cluster.PolicyRef(""))
	if err != nil {
		return err
	}
	o.policies = newTable(o, gvr.Resource, func(in *unstructured.Unstructured) *model.Policy {
		p := PolicyOf(in)
		return &p
	})
	from := o.client.Dynamic.Resource(gvr)
	watchInto(ctx, o.policies, from.List, from.Watch)
	return nil
}

// Policies returns all ClusterPolicies, the oldest first.
func (o *Observer) Policies() []model.Policy {
	var all []model.Policy
	for _, r := range o.policies.rows() {
		all = append(all, *r.value)
	}
	return ByAge(all)
}

// ListPolicies returns the ClusterPolicies of a cluster, the oldest first.
func ListPolicies(ctx context.Context, client *cluster.Client) ([]model.Policy, error) {
	list, err := client.Policies(ctx)
	var all []model.Policy
	for i := range list {
		all = append(all, PolicyOf(&list[i]))
	}
	return ByAge(all), err
}

// ByAge sorts policies, the oldest first, and returns them. The first one is in effect.
func ByAge(all []model.Policy) []model.Policy {
	slices.SortFunc(all, func(a, b model.Policy) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID)) })
	return all
}

// PolicyOf returns the content of a ClusterPolicy. If the status has fields of a wrong type,
// PolicyOf returns only its inventory. If the inventory is invalid, it sets Unreadable.
func PolicyOf(in *unstructured.Unstructured) model.Policy {
	p := model.Policy{
		Name: in.GetName(), Release: cmp.Or(in.GetLabels()[releaseLabel], in.GetName()), UID: in.GetUID(), Generation: in.GetGeneration(), Created: in.GetCreationTimestamp().UTC(),
		Finalizers: in.GetFinalizers(), Deleting: in.GetDeletionTimestamp() != nil,
		Version: in.GetResourceVersion(), Adopt: in.GetAnnotations()[adoptAnnotation] == "true",
		Validate: model.Repetition{Text: in.GetAnnotations()[Validate], On: in.GetAnnotations()[ValidateOn], With: in.GetAnnotations()[ValidateWith]},
	}
	p.Values, _, _ = unstructured.NestedMap(in.Object, "spec")
	var listed []model.Ref
	status, _, err := unstructured.NestedMap(in.Object, "status")
	if err == nil {
		listed, err = inventory(status)
	}
	if err != nil {
		p.Unreadable = fmt.Errorf("read status.inventory of ClusterPolicy %s, the list of applied objects: %w; the orchestrator changes nothing until you restore the list, or remove it; "+
			"objects that the values no longer describe then stay (kubectl patch gpupolicy %s --subresource=status --type=merge -p '{\"status\":null}')", p.Name, err, p.Name)
		return p
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &p.Status); err != nil {
		// The next pass writes the status again.
		p.Status = model.Status{Inventory: listed}
	}
	return p
}

// inventory returns the inventory of a status. It returns an error if an item is incomplete.
func inventory(status map[string]any) ([]model.Ref, error) {
	var in struct {
		Inventory []model.Ref `json:"inventory"`
	}
	only := map[string]any{"inventory": status["inventory"]}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(only, &in); err != nil {
		return nil, err
	}
	for i, r := range in.Inventory {
		if r.APIVersion == "" || r.Kind == "" || r.Name == "" {
			return nil, fmt.Errorf("item %d has no apiVersion, kind or name", i)
		}
	}
	return in.Inventory, nil
}
