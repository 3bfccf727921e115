package publish

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
)

// nodeFeatureAPI is the API group and version of the CRD nodefeatures.nfd.k8s-sigs.io (Node
// Feature Discovery v0.18). With its objects, other programs pass features to Node Feature
// Discovery.
const nodeFeatureAPI = "nfd.k8s-sigs.io/v1alpha1"

// NodeFeature publishes labels in the NodeFeature object of the node. The master of Node Feature
// Discovery copies them to the Node. The agent needs the verbs get, patch and create on
// nodefeatures, and get on pods.
type NodeFeature struct {
	Stamper
	Client    *kube.Client
	Namespace string
	// Pod is the name of this process's pod. The object is deleted after the pod and its
	// controller. If Pod is empty, the object stays when the agent is deleted.
	Pod string
}

var _ Output = NodeFeature{}

// Put applies the object if its labels differ.
func (f NodeFeature) Put(ctx context.Context, labels map[string]string) error {
	there, found, err := f.read(ctx)
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
	return f.apply(ctx, stamped, owners)
}

// Withdraw removes the labels from the object. It makes the pod the only owner of the object, so
// that the object is deleted with the pod.
func (f NodeFeature) Withdraw(ctx context.Context) error {
	_, found, err := f.read(ctx)
	if err != nil || !found {
		return err
	}
	owners, err := f.owners(ctx)
	if err != nil {
		return err
	}
	return f.apply(ctx, nil, owners[:min(len(owners), 1)])
}

// ownerReference refers to the owner of an object. The garbage collector deletes the object after
// its owners (API reference, ObjectMeta.ownerReferences).
type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// owners returns references to the pod and to its controller, a DaemonSet. With both, the object
// stays when the DaemonSet replaces the pod.
func (f NodeFeature) owners(ctx context.Context) ([]ownerReference, error) {
	if f.Pod == "" {
		return nil, nil
	}
	var object struct {
		Metadata struct {
			UID             string           `json:"uid"`
			OwnerReferences []ownerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	err := f.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: f.Namespace, Name: f.Pod}, &object)
	if err != nil {
		return nil, fmt.Errorf("read the owners of pod %s/%s: %w", f.Namespace, f.Pod, err)
	}
	owners := []ownerReference{{APIVersion: "v1", Kind: "Pod", Name: f.Pod, UID: object.Metadata.UID}}
	for _, owner := range object.Metadata.OwnerReferences {
		if owner.Controller {
			owners = append(owners, owner)
		}
	}
	return owners, nil
}

// read returns the labels of the object, and whether the object exists.
func (f NodeFeature) read(ctx context.Context) (labels map[string]string, found bool, err error) {
	var feature struct {
		Spec struct {
			Labels map[string]string `json:"labels"`
		} `json:"spec"`
	}
	err = f.Client.Get(ctx, f.object(), &feature)
	switch {
	case apierrors.IsNotFound(err) && !unserved(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read NodeFeature %s/%s: %w", f.Namespace, f.object().Name, withoutNFD(err))
	}
	return feature.Spec.Labels, true, nil
}

// apply creates or updates the object. The object is deleted after all of its owners. Without
// owners, it stays.
func (f NodeFeature) apply(ctx context.Context, labels map[string]string, owners []ownerReference) error {
	metadata := map[string]any{
		"name": f.object().Name, "namespace": f.Namespace,
		"labels": map[string]any{"nfd.node.kubernetes.io/node-name": f.Client.Node().Name},
	}
	if len(owners) > 0 {
		metadata["ownerReferences"] = owners
	}
	none := map[string]any{}
	spec := map[string]any{
		// Each of these fields is required by some version of NFD.
		"features": map[string]any{"flags": none, "attributes": none, "instances": none},
	}
	if len(labels) > 0 {
		spec["labels"] = labels
	}
	err := f.Client.Apply(ctx, f.object(), map[string]any{
		"apiVersion": nodeFeatureAPI, "kind": "NodeFeature", "metadata": metadata, "spec": spec,
	}, nil)
	if err != nil {
		return fmt.Errorf("apply NodeFeature %s/%s: %w", f.Namespace, f.object().Name, withoutNFD(err))
	}
	return nil
}

func (f NodeFeature) object() kube.Object {
	return kube.Object{
		API: nodeFeatureAPI, Resource: "nodefeatures", Namespace: f.Namespace, Name: "nvidia-features-for-" + f.Client.Node().Name,
	}
}

// unserved reports whether err is the answer to a path that the API server does not serve. In
// contrast, the answer about a missing object names the object.
func unserved(err error) bool {
	status, is := errors.AsType[*apierrors.StatusError](err)
	return is && apierrors.IsNotFound(err) && (apierrors.IsUnexpectedServerError(err) || status.ErrStatus.Details.Name == "")
}

// withoutNFD explains the answer of an API server that does not serve NodeFeatures.
func withoutNFD(err error) error {
	if !unserved(err) {
		return err
	}
	return fmt.Errorf("this cluster has no Node Feature Discovery (no CRD nodefeatures.nfd.k8s-sigs.io): install it, or publish the labels on the Node: %w", err)
}
