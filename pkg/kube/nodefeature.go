package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// nodeFeatureAPI is the API in which Node Feature Discovery takes features from
// others (its CRD nodefeatures.nfd.k8s-sigs.io, v0.18).
const nodeFeatureAPI = "nfd.k8s-sigs.io/v1alpha1"

// OwnerReference names an object with which another one goes (API reference,
// ObjectMeta.ownerReferences).
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// NodeFeatureLabels returns the labels that the own node's NodeFeature asks for,
// and whether there is one. It needs the verb get on nodefeatures.
func (c *Client) NodeFeatureLabels(ctx context.Context, namespace string) (labels map[string]string, found bool, err error) {
	var feature struct {
		Spec struct {
			Labels map[string]string `json:"labels"`
		} `json:"spec"`
	}
	err = c.call(ctx, request{method: http.MethodGet, path: c.featurePath(namespace), accept: asJSON}, &feature)
	switch {
	case answered(err, http.StatusNotFound) && !unserved(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read NodeFeature %s/%s: %w", namespace, c.featureName(), withoutNFD(err))
	}
	return feature.Spec.Labels, true, nil
}

// ApplyNodeFeature has Node Feature Discovery put the labels on the own Node: it
// applies the NodeFeature of this node, and makes it if there is none. It goes
// when all of its owners are gone; without owners it stays.
//
// It needs the verbs patch and create on nodefeatures.
func (c *Client) ApplyNodeFeature(ctx context.Context, namespace string, labels map[string]string, owners []OwnerReference) error {
	metadata := map[string]any{
		"name": c.featureName(), "namespace": namespace,
		"labels": map[string]any{"nfd.node.kubernetes.io/node-name": c.cfg.Node},
	}
	if len(owners) > 0 {
		metadata["ownerReferences"] = owners
	}
	none := map[string]any{}
	spec := map[string]any{
		// Versions of NFD differ in which of these have to be there.
		"features": map[string]any{"flags": none, "attributes": none, "instances": none},
	}
	if len(labels) > 0 {
		spec["labels"] = labels
	}
	err := c.apply(ctx, c.featurePath(namespace), map[string]any{
		"apiVersion": nodeFeatureAPI, "kind": "NodeFeature", "metadata": metadata, "spec": spec,
	})
	if err != nil {
		return fmt.Errorf("apply NodeFeature %s/%s: %w", namespace, c.featureName(), withoutNFD(err))
	}
	return nil
}

// PodOwners returns the references by which an object goes with a pod and with
// what controls it, its DaemonSet. With both it outlives a pod that the DaemonSet
// replaces. It needs the verb get on pods.
func (c *Client) PodOwners(ctx context.Context, namespace, pod string) ([]OwnerReference, error) {
	var object struct {
		Metadata struct {
			UID             string           `json:"uid"`
			OwnerReferences []OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(pod)
	if err := c.call(ctx, request{method: http.MethodGet, path: path, accept: asMetadata}, &object); err != nil {
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

func (c *Client) featureName() string { return "nvidia-features-for-" + c.cfg.Node }

func (c *Client) featurePath(namespace string) string {
	return "/apis/" + nodeFeatureAPI + "/namespaces/" + url.PathEscape(namespace) + "/nodefeatures/" + url.PathEscape(c.featureName())
}

// withoutNFD says what it means that NodeFeatures are not served.
func withoutNFD(err error) error {
	if !unserved(err) {
		return err
	}
	return fmt.Errorf("this cluster has no Node Feature Discovery (no CRD nodefeatures.nfd.k8s-sigs.io): install it, or publish the labels on the Node: %w", err)
}
