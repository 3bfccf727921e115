package migrate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/charts"
)

// agentsNamespace is the namespace that the chart outrigger creates for its agents.
const agentsNamespace = "gpu-operator-resources"

// ReadCluster reads the objects of NVIDIA's GPU Operator, and the facts about the cluster that a plan needs. The registry
// and the version of the options are the caller's. found is false if the cluster has no such objects.
func ReadCluster(ctx context.Context, client dynamic.Interface, o *Options) (s Source, found bool, err error) {
	for _, kind := range []struct{ version, resource string }{{"v1", "clusterpolicies"}, {"v1alpha1", "nvidiadrivers"}, {"v1alpha1", "gpuclusters"}} {
		gvr := schema.GroupVersionResource{Group: "nvidia.com", Version: kind.version, Resource: kind.resource}
		list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // the cluster does not have the kind
		}
		if err != nil {
			return s, found, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
		}
		for i := range list.Items {
			found = true
			o := &list.Items[i]
			if err := s.add(o.Object); err != nil {
				return s, found, err
			}
			s.From = append(s.From, o.GetKind()+" "+o.GetName()+" of nvidia.com")
			if o.GetKind() == "ClusterPolicy" {
				s.addRelease(ctx, client, o)
			}
		}
	}
	nodes, err := listOf[corev1.Node](ctx, client, nodesResource, "", "")
	if err != nil {
		return s, found, err
	}
	o.Nodes = kinds(nodes)
	for _, n := range nodes {
		switch n.Labels[deploy+Driver] {
		case preInstalled:
			o.HostDrivers++
		case Theirs, Ours, Between:
			o.OtherDrivers++
		}
	}
	monitors := schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}
	if _, err := client.Resource(monitors).List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		o.NoServiceMonitors = true
	}
	namespace, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, agentsNamespace, metav1.GetOptions{})
	// Without the permission to read it, Helm reports that it exists.
	o.NamespaceExists = err == nil && namespace.GetAnnotations()["meta.helm.sh/release-name"] == ""
	return s, found, nil
}

// addRelease adds the values of the Helm release of a ClusterPolicy. Most values are in its spec too, which takes
// precedence, because it may have been edited.
func (s *Source) addRelease(ctx context.Context, client dynamic.Interface, policy *unstructured.Unstructured) {
	values, name, err := helmValues(ctx, client, policy)
	if err != nil {
		s.Unread = append(s.Unread, err.Error())
		return
	}
	if name != "" {
		delete(values, "extraObjects") // they exist
		s.Values = mergeInto(values, s.Values)
		s.From = append(s.From, "the values of the Helm release "+name)
	}
}

// kinds returns the kinds of the nodes with GPUs, by the labels of Node Feature Discovery.
func kinds(nodes []*corev1.Node) []charts.Node {
	var all []charts.Node
	seen := map[charts.Node]bool{}
	for _, n := range nodes {
		if _, is := n.Labels[deploy+Driver]; !is {
			continue
		}
		const feature = "feature.node.kubernetes.io/"
		kind := charts.Node{
			Kernel: n.Labels[feature+"kernel-version.full"], ID: n.Labels[feature+"system-os_release.ID"],
			Version: n.Labels[feature+"system-os_release.VERSION_ID"], Major: n.Labels[feature+"system-os_release.VERSION_ID.major"],
		}
		if !seen[kind] {
			seen[kind] = true
			all = append(all, kind)
		}
	}
	return all
}

// Count is how far the hand-over of a component is.
type Count struct {
	Component string `json:"component"`
	// Theirs, Ours and Between are numbers of nodes. Other nodes have another value in the label.
	Theirs  int `json:"theirs"`
	Ours    int `json:"ours"`
	Between int `json:"between"`
	Other   int `json:"other"`
}

// Counts reads how far a migration is. nodes is a label selector.
func Counts(ctx context.Context, client dynamic.Interface, nodes string) ([]Count, error) {
	all, err := listOf[corev1.Node](ctx, client, nodesResource, "", nodes)
	if err != nil {
		return nil, err
	}
	var counts []Count
	for _, c := range Components() {
		count := Count{Component: c.Name}
		for _, n := range all {
			switch value, is := n.Labels[c.Label]; {
			case value == Theirs:
				count.Theirs++
			case value == Ours:
				count.Ours++
			case value == Between:
				count.Between++
			case is:
				count.Other++
			}
		}
		counts = append(counts, count)
	}
	return counts, nil
}
