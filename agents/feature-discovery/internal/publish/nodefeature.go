package publish

import (
	"context"

	"outrigger.dev/agents/feature-discovery/internal/object"
)

// NodeFeatures reads and writes objects of Node Feature Discovery's API.
type NodeFeatures interface {
	NodeFeatureLabels(ctx context.Context, namespace string) (labels map[string]string, found bool, err error)
	ApplyNodeFeature(ctx context.Context, namespace string, labels map[string]string, owners []object.OwnerReference) error
	PodOwners(ctx context.Context, namespace, pod string) ([]object.OwnerReference, error)
}

var _ NodeFeatures = (*object.Client)(nil)

// NodeFeature publishes labels in the NodeFeature object of the node, from which
// the master of Node Feature Discovery labels the Node.
type NodeFeature struct {
	Stamper
	API       NodeFeatures
	Namespace string
	// Pod is the name of this process's pod. The object is deleted after the pod
	// and its controller; if Pod is empty, it outlives the agent.
	Pod string
}

var _ Output = NodeFeature{}

// Put applies the object if its labels differ.
func (f NodeFeature) Put(ctx context.Context, labels map[string]string) error {
	there, found, err := f.API.NodeFeatureLabels(ctx, f.Namespace)
	if err != nil {
		return err
	}
	stamped, differ := f.stamp(labels, there)
	if found && !differ {
		return nil
	}
	owners, err := f.owners(ctx)
	if err != nil {
		return err
	}
	return f.API.ApplyNodeFeature(ctx, f.Namespace, stamped, owners)
}

// Withdraw takes the labels back, and leaves the object to the pod, with which it goes.
func (f NodeFeature) Withdraw(ctx context.Context) error {
	_, found, err := f.API.NodeFeatureLabels(ctx, f.Namespace)
	if err != nil || !found {
		return err
	}
	owners, err := f.owners(ctx)
	if err != nil {
		return err
	}
	return f.API.ApplyNodeFeature(ctx, f.Namespace, nil, owners[:min(len(owners), 1)])
}

// owners returns the pod and its controller.
func (f NodeFeature) owners(ctx context.Context) ([]object.OwnerReference, error) {
	if f.Pod == "" {
		return nil, nil
	}
	return f.API.PodOwners(ctx, f.Namespace, f.Pod)
}
