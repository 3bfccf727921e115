package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
)

// The API of ClusterPolicy.
const (
	PolicyAPI  = "outrigger.dev/v1alpha1"
	PolicyKind = "ClusterPolicy"
)

// PolicyRef names a ClusterPolicy.
func PolicyRef(name string) model.Ref {
	return model.Ref{APIVersion: PolicyAPI, Kind: PolicyKind, Name: name}
}

// Policies returns all ClusterPolicies. It returns none if the API server does not have the kind.
func (c *Client) Policies(ctx context.Context) ([]unstructured.Unstructured, error) {
	gvr, _, err := c.Mapping(ctx, PolicyRef(""))
	if IsNoKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // The API server does not serve the kind any more.
	}
	if err != nil {
		return nil, fmt.Errorf("list ClusterPolicies: %w", err)
	}
	return list.Items, nil
}
