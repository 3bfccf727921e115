package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// State is the observed state of a migration. It is read from the cluster each time.
type State struct {
	Nodes []*corev1.Node
	// Sets are the DaemonSets of both sides, and Pods their pods.
	Sets []Set
	Pods []Pod
	// Free are DaemonSets of Outrigger for the component that ignore its label: "NAMESPACE/NAME".
	Free []string
	// Policies are NVIDIA's ClusterPolicies.
	Policies []unstructured.Unstructured
}

// Set is a DaemonSet that the label of a component schedules.
type Set struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Images    []string `json:"images,omitempty"`
	// Label and Value are the label that its pods select: the value Theirs or Ours.
	Label string `json:"label"`
	Value string `json:"value"`

	// Selector selects its pods.
	Selector string `json:"selector,omitempty"`
}

// Pod is a pod of a Set.
type Pod struct {
	Namespace, Name, Node string
	Label, Value          string
	Ready                 bool
	// Waits says why the pod is not ready.
	Waits string
	// Running has the start of each container that runs, by its ID.
	Running map[string]time.Time
}

var (
	nodesResource      = corev1.SchemeGroupVersion.WithResource("nodes")      //nolint:gochecknoglobals // it is constant
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")       //nolint:gochecknoglobals // it is constant
	daemonSetsResource = appsv1.SchemeGroupVersion.WithResource("daemonsets") //nolint:gochecknoglobals // it is constant
)

// Observe reads the nodes that a label selector selects, and the DaemonSets of a component with their pods.
func Observe(ctx context.Context, client dynamic.Interface, c Component, nodes string) (*State, error) {
	s := &State{}
	var err error
	if s.Nodes, err = listOf[corev1.Node](ctx, client, nodesResource, "", nodes); err != nil {
		return nil, err
	}
	sets, err := listOf[appsv1.DaemonSet](ctx, client, daemonSetsResource, "", "")
	if err != nil {
		return nil, err
	}
	for _, d := range sets {
		if set, is := setOf(d, c.Labels()); is {
			s.Sets = append(s.Sets, set)
		} else if d.Labels["app.kubernetes.io/part-of"] == "outrigger" && d.Labels["app.kubernetes.io/component"] == c.Chart && d.DeletionTimestamp == nil {
			s.Free = append(s.Free, d.Namespace+"/"+d.Name)
		}
	}
	gone, err := s.gone(ctx, client, c)
	if err != nil {
		return nil, err
	}
	for _, set := range slices.Concat(s.Sets, gone) {
		pods, err := listOf[corev1.Pod](ctx, client, podsResource, set.Namespace, set.Selector)
		if err != nil {
			return nil, err
		}
		for _, p := range pods {
			if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "DaemonSet" && owner.Name == set.Name {
				s.Pods = append(s.Pods, podOf(p, set))
			}
		}
	}
	return s, nil
}

// gone reads NVIDIA's ClusterPolicies. It returns the DaemonSets that are gone because a migration has disabled the component:
// their pods may still run.
func (s *State) gone(ctx context.Context, client dynamic.Interface, c Component) (gone []Set, err error) {
	if s.Policies, err = listPolicies(ctx, client); err != nil {
		return nil, err
	}
	_, made, err := s.disabled(c)
	if err != nil || made == nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(made.Sets), func(old Set) bool {
		return slices.ContainsFunc(s.Sets, func(set Set) bool { return set.Namespace == old.Namespace && set.Name == old.Name })
	}), nil
}

// listOf lists objects, in a namespace or in all, that a label selector selects.
func listOf[T any](ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, namespace, selector string) ([]*T, error) {
	const page = 500
	var all []*T
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		found, err := client.Resource(gvr).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", gvr.Resource, err)
		}
		for i := range found.Items {
			o, err := typed[T](&found.Items[i])
			if err != nil {
				return nil, err
			}
			all = append(all, o)
		}
		if options.Continue = found.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

func typed[T any](o *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return into, nil
}

// setOf returns the Set of a DaemonSet, if its pods select one of the labels with the value of one side.
func setOf(d *appsv1.DaemonSet, labels []string) (Set, bool) {
	for _, label := range labels {
		value := d.Spec.Template.Spec.NodeSelector[label]
		if value != Theirs && value != Ours || d.DeletionTimestamp != nil {
			continue
		}
		set := Set{Namespace: d.Namespace, Name: d.Name, Label: label, Value: value, Selector: metav1.FormatLabelSelector(d.Spec.Selector)}
		for _, container := range d.Spec.Template.Spec.Containers {
			set.Images = append(set.Images, container.Image)
		}
		return set, true
	}
	return Set{}, false
}

// podOf returns the Pod of a Set.
func podOf(p *corev1.Pod, set Set) Pod {
	pod := Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Label: set.Label, Value: set.Value, Running: runningIn(p)}
	if pod.Node == "" {
		pod.Node = assigned(p)
	}
	switch i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }); {
	case p.DeletionTimestamp != nil:
		pod.Waits = "it is being deleted"
	case i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionTrue:
		pod.Ready = true
	default:
		pod.Waits = waits(p)
	}
	return pod
}

// assigned returns the node that the controller of DaemonSets has chosen for a pod without a node. It is the only name in
// the affinity of the pod.
func assigned(p *corev1.Pod) string {
	affinity := p.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// waits returns why a pod is not ready: the reason of its first container that waits, or its phase.
func waits(p *corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	return cmp.Or(p.Status.Reason, "phase "+string(p.Status.Phase))
}

// Side returns the DaemonSets with a value of a label.
func (s *State) Side(label, value string) []Set {
	var found []Set
	for _, set := range s.Sets {
		if set.Label == label && set.Value == value {
			found = append(found, set)
		}
	}
	return found
}

// node returns the node with a name, or nil.
func (s *State) node(name string) *corev1.Node {
	if i := slices.IndexFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == name }); i >= 0 {
		return s.Nodes[i]
	}
	return nil
}

// ready reports whether the kubelet of a node is ready.
func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// gpus returns the number of each resource nvidia.com/… in a list of the node's resources.
func gpus(list corev1.ResourceList) map[string]int64 {
	found := map[string]int64{}
	for name, quantity := range list {
		if strings.HasPrefix(string(name), "nvidia.com/") {
			found[string(name)] = quantity.Value()
		}
	}
	return found
}
