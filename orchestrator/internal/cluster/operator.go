package cluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// otherKinds are the kinds of NVIDIA's GPU Operator whose objects say how nodes are configured.
var otherKinds = []struct{ version, resource string }{ //nolint:gochecknoglobals // it is constant
	{"v1", "clusterpolicies"}, {"v1alpha1", "nvidiadrivers"}, {"v1alpha1", "gpuclusters"},
}

// OtherOperator says which objects NVIDIA's GPU Operator has in the cluster, a few of each kind, and how to remove them. It
// returns "" if there are none.
func (c *Client) OtherOperator(ctx context.Context) (string, error) {
	objects, err := c.OtherObjects(ctx)
	if len(objects) == 0 {
		return "", err
	}
	var found []string
	for _, o := range objects {
		found = append(found, o.GetKind()+" "+o.GetName())
	}
	return fmt.Sprintf("NVIDIA's GPU Operator has objects in this cluster: %s (group nvidia.com). Its operator and this one would configure the same nodes: "+
		"copy its values, uninstall it with helm uninstall, then delete these objects with kubectl; see docs/from-nvidia-gpu-operator.md", strings.Join(found, ", ")), err
}

// OtherObjects returns objects of NVIDIA's GPU Operator in the cluster, a few of each kind.
func (c *Client) OtherObjects(ctx context.Context) ([]unstructured.Unstructured, error) {
	var found []unstructured.Unstructured
	for _, k := range otherKinds {
		gvr := schema.GroupVersionResource{Group: "nvidia.com", Version: k.version, Resource: k.resource}
		list, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: maxOthers})
		if apierrors.IsNotFound(err) {
			continue // the cluster does not have the kind
		}
		if err != nil {
			return found, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
		}
		found = append(found, list.Items...)
	}
	return found, nil
}
