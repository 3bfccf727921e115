package object

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
)

// nodeFeatureAPI is the API in which Node Feature Discovery takes features from
// others (its CRD nodefeatures.nfd.k8s-sigs.io, v0.18).
const nodeFeatureAPI = "nfd.k8s-sigs.io/v1alpha1"

// OwnerReference names an object; the garbage collector deletes the object that has
// the reference after it (API reference, ObjectMeta.ownerReferences).
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// NodeFeatureLabels returns the labels in the node's NodeFeature, and whether that
// exists. It needs the verb get on nodefeatures.
func (c *Client) NodeFeatureLabels(ctx context.Context, namespace string) (labels map[string]string, found bool, err error) {
	var feature struct {
		Spec struct {
			Labels map[string]string `json:"labels"`
		} `json:"spec"`
	}
	of := c.nodeFeature(namespace)
	err = c.api.Get(ctx, of, &feature)
	switch {
	case apierrors.IsNotFound(err) && !unserved(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read NodeFeature %s/%s: %w", namespace, of.Name, withoutNFD(err))
	}
	return feature.Spec.Labels, true, nil
}

// ApplyNodeFeature makes Node Feature Discovery put the labels on the Node: it
// applies the NodeFeature of this node, and creates it if it does not exist. The
// object is deleted after all of its owners; without owners it stays.
//
// It needs the verbs patch and create on nodefeatures.
func (c *Client) ApplyNodeFeature(ctx context.Context, namespace string, labels map[string]string, owners []OwnerReference) error {
	of := c.nodeFeature(namespace)
	metadata := map[string]any{
		"name": of.Name, "namespace": namespace,
		"labels": map[string]any{"nfd.node.kubernetes.io/node-name": c.api.Node().Name},
	}
	if len(owners) > 0 {
		metadata["ownerReferences"] = owners
	}
	none := map[string]any{}
	spec := map[string]any{
		// Versions of NFD differ in which of these are required.
		"features": map[string]any{"flags": none, "attributes": none, "instances": none},
	}
	if len(labels) > 0 {
		spec["labels"] = labels
	}
	err := c.api.Apply(ctx, of, map[string]any{
		"apiVersion": nodeFeatureAPI, "kind": "NodeFeature", "metadata": metadata, "spec": spec,
	})
	if err != nil {
		return fmt.Errorf("apply NodeFeature %s/%s: %w", namespace, of.Name, withoutNFD(err))
	}
	return nil
}

// PodOwners returns references to a pod and to its controller, a DaemonSet. An
// object that has both outlives a pod that the DaemonSet replaces. It needs the
// verb get on pods.
func (c *Client) PodOwners(ctx context.Context, namespace, pod string) ([]OwnerReference, error) {
	var object struct {
		Metadata struct {
			UID             string           `json:"uid"`
			OwnerReferences []OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	err := c.api.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: namespace, Name: pod}, &object)
	if err != nil {
		return nil, fmt.Errorf("read the owners of pod %s/%s: %w", namespace, pod, err)
	}
	owners := []OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: object.Metadata.UID}}
	for _, owner := range object.Metadata.OwnerReferences {
		if owner.Controller {
			owners = append(owners, owner)
		}
	}
	return owners, nil
}

func (c *Client) nodeFeature(namespace string) kube.Object {
	return kube.Object{
		API: nodeFeatureAPI, Resource: "nodefeatures", Namespace: namespace, Name: "nvidia-features-for-" + c.api.Node().Name,
	}
}

// unserved reports whether err is the answer to a path that the API server does
// not serve: the answer about a missing object names it.
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
