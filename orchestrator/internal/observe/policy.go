package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
)

// release is the label that names the Helm release of a ClusterPolicy.
const release = "app.kubernetes.io/instance"

// The annotations of a ClusterPolicy.
const (
	// validate asks for the validations again, with each new value.
	validate = "outrigger.dev/validate"
	// adopt allows to take over objects of others, if it is "true".
	adopt = "outrigger.dev/adopt"
)

// FollowPolicies starts to observe the ClusterPolicies until ctx ends.
func (o *Observer) FollowPolicies(ctx context.Context) error {
	gvr, _, err := o.cfg.Client.Mapping(cluster.PolicyRef(""))
	if err != nil {
		return err
	}
	policies := newTable(o, o.policy, func(a, b model.Policy) bool { return reflect.DeepEqual(a, b) })
	o.mu.Lock()
	o.policies = policies
	o.mu.Unlock()
	resource := o.cfg.Client.Dynamic.Resource(gvr)
	o.reflect(ctx, "clusterpolicies", &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, policies)
	return nil
}

// Policies returns all ClusterPolicies, the oldest first.
func (o *Observer) Policies() []model.Policy {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Values(o.policies.rows), func(a, b model.Policy) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
	})
}

func (o *Observer) policy(object metav1.Object) (model.Policy, bool) {
	in, ok := object.(*unstructured.Unstructured)
	if !ok {
		return model.Policy{}, false
	}
	p, err := PolicyOf(in)
	if err != nil {
		o.cfg.Log.Warn("cannot read status of ClusterPolicy, writing it again", "policy", p.Name, "err", err)
	}
	return p, true
}

// PolicyOf returns what a ClusterPolicy says. With an error, its status is empty.
func PolicyOf(in *unstructured.Unstructured) (model.Policy, error) {
	p := model.Policy{
		Name: in.GetName(), Release: cmp.Or(in.GetLabels()[release], in.GetName()), UID: in.GetUID(), Generation: in.GetGeneration(), Created: in.GetCreationTimestamp().UTC(),
		Finalizers: in.GetFinalizers(), Deleting: in.GetDeletionTimestamp() != nil,
		Version: version(in), Validate: in.GetAnnotations()[validate], Adopt: in.GetAnnotations()[adopt] == "true",
	}
	p.Values, _, _ = unstructured.NestedMap(in.Object, "spec")
	status, _, _ := unstructured.NestedMap(in.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &p.Status); err != nil {
		p.Status = model.Status{}
		return p, fmt.Errorf("decode status: %w", err)
	}
	p.Inventory = p.Status.Inventory
	return p, nil
}
