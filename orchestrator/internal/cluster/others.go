package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
)

// maxOthers is the maximum number of objects that Others returns.
const maxOthers = 5

// Managers is a list of field managers: names of programs that write to the API server.
type Managers []string

// Agents returns the field managers of the agents: the names of their charts.
func Agents() (Managers, error) {
	names, err := charts.Names()
	return names, err
}

// Include reports whether a field manager is in the list, or is a part of an agent in the list,
// such as "feature-discovery-presence".
func (m Managers) Include(manager string) bool {
	return slices.ContainsFunc(m, func(name string) bool { return manager == name || strings.HasPrefix(manager, name+"-") })
}

// Others returns up to maxOthers objects in a namespace that were not created by the orchestrator,
// by an agent or by Kubernetes itself. It skips kinds that this account has no permission to list.
func (c *Client) Others(ctx context.Context, namespace string) ([]model.Ref, error) {
	lists, err := c.discovery.ServerPreferredNamespacedResources()
	// An aggregated API that is down, such as the metrics API, is skipped.
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	ours, err := Agents()
	if err != nil {
		return nil, err
	}
	var found []model.Ref
	listed := discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}
	for _, list := range discovery.FilteredBy(listed, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
		}
		for _, kind := range list.APIResources {
			if kind.Kind == "Event" {
				continue
			}
			objects, err := c.Metadata.Resource(gv.WithResource(kind.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s of the namespace %s: %w", kind.Name, namespace, err)
			}
			for i := range objects.Items {
				if o := &objects.Items[i]; ours.isForeign(kind.Kind, o) && len(found) < maxOthers {
					found = append(found, model.Ref{APIVersion: list.GroupVersion, Kind: kind.Kind, Namespace: namespace, Name: o.Name})
				}
			}
		}
	}
	return found, nil
}

// isForeign reports whether an object was created by a program other than the managers in m, the
// orchestrator and Kubernetes. Objects with an owner do not count, because they are deleted with
// the owner. A pod counts even if it has an owner, because this account might have no permission to
// see the owner's kind.
func (m Managers) isForeign(kind string, o metav1.Object) bool {
	owner := metav1.GetControllerOf(o)
	switch {
	case o.GetDeletionTimestamp() != nil, inEveryNamespace(kind, o.GetName()):
		return false
	case kind == "Pod" && owner != nil:
		return owner.Kind != "DaemonSet" && o.GetLabels()[model.LabelOneForAll] != "true"
	case len(o.GetOwnerReferences()) > 0:
		return false
	}
	return !slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == model.FieldManager || e.Manager == "kube-controller-manager" || m.Include(e.Manager)
	})
}

// inEveryNamespace reports whether Kubernetes or OpenShift makes an object in each namespace.
func inEveryNamespace(kind, name string) bool {
	switch kind {
	case "ServiceAccount":
		return slices.Contains([]string{"default", "builder", "deployer"}, name)
	case "ConfigMap":
		return name == "kube-root-ca.crt" || name == "openshift-service-ca.crt"
	}
	return false
}

// KeptMessage says why a namespace is not deleted.
func KeptMessage(namespace model.Ref, others []model.Ref) string {
	names := make([]string, len(others))
	for i, r := range others {
		names[i] = r.Kind + " " + r.Name
	}
	return fmt.Sprintf("%s is kept, because it has objects of other programs, such as %s: delete it if nobody needs them", namespace, strings.Join(names, ", "))
}

// Release gives up the orchestrator's fields of an object, including the label render.ManagedBy, so
// that the object is not deleted later.
func (c *Client) Release(ctx context.Context, r model.Ref) error {
	_, err := c.Apply(ctx, r.Object(), Mode{Known: true})
	return err
}
