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

// maxOthers bounds the objects that Others names.
const maxOthers = 5

// Managers are field managers: programs that write to the API server.
type Managers []string

// Agents returns the field managers of agents, which have the names of their charts.
func Agents() (Managers, error) {
	names, err := charts.Names()
	return names, err
}

// Include reports whether a field manager is one of these, or a part of it, such as
// "feature-discovery-presence".
func (m Managers) Include(manager string) bool {
	return slices.ContainsFunc(m, func(name string) bool { return manager == name || strings.HasPrefix(manager, name+"-") })
}

// Others returns some objects in a namespace that neither the orchestrator, nor agents, nor
// Kubernetes itself made. It does not see kinds that this account may not list.
func (c *Client) Others(ctx context.Context, namespace string) ([]model.Ref, error) {
	lists, err := c.discovery.ServerPreferredResources()
	// An API that is down, such as that of metrics, has no say.
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	ours, err := Agents()
	if err != nil {
		return nil, err
	}
	var found []model.Ref
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
		}
		for _, kind := range list.APIResources {
			if !kind.Namespaced || !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") || kind.Kind == "Event" {
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

// isForeign reports whether none of the managers, nor the orchestrator or Kubernetes, made an object.
// What has an owner goes with it; a pod counts by itself, because the owner may be of a kind that is
// not seen.
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
	return fmt.Sprintf("%s is kept, because others have objects in it, such as %s: delete it if nobody needs them", namespace, strings.Join(names, ", "))
}

// Release makes an object that the orchestrator has applied one of nobody: its label goes, and it
// is not deleted any more.
func (c *Client) Release(ctx context.Context, r model.Ref) error {
	_, err := c.Apply(ctx, r.Object(), Mode{Known: true})
	return err
}
