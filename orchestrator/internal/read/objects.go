package read

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"outrigger.dev/orchestrator/internal/facts"
)

// common returns the steps of each target.
func (r *reader) common() []step {
	return []step{
		{"ClusterPolicies", r.policies},
		{"objects of NVIDIA's GPU Operator", r.others},
		{"RuntimeClasses", r.runtimeClasses},
		{"Events of ClusterPolicies", func(ctx context.Context) error {
			return r.events(ctx, metav1.NamespaceDefault, "involvedObject.kind=ClusterPolicy")
		}},
	}
}

func (r *reader) policies(ctx context.Context) error {
	list, err := r.client.Policies(ctx)
	if err != nil {
		return err
	}
	r.add(func(f *facts.Facts) {
		for i := range list {
			list[i].SetManagedFields(nil)
			f.Policies = append(f.Policies, &list[i])
		}
	})
	return nil
}

func (r *reader) others(ctx context.Context) error {
	list, err := r.client.OtherObjects(ctx)
	r.add(func(f *facts.Facts) {
		for i := range list {
			list[i].SetManagedFields(nil)
			f.Others = append(f.Others, &list[i])
		}
	})
	return err
}

func (r *reader) runtimeClasses(ctx context.Context) error {
	return objects(ctx, r, nodev1.SchemeGroupVersion.WithResource("runtimeclasses"), func(f *facts.Facts, c *nodev1.RuntimeClass) {
		trimMeta(&c.ObjectMeta)
		f.RuntimeClasses = append(f.RuntimeClasses, c)
	})
}

func convert(from *unstructured.Unstructured, to any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("read %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

// nodes returns the step that reads all nodes.
func (r *reader) nodes() step {
	return step{nodesStep, func(ctx context.Context) error {
		return each(ctx, query{group: r.client.Core, resource: "nodes"}, func() *corev1.NodeList { return &corev1.NodeList{} }, func(l *corev1.NodeList) {
			r.add(func(f *facts.Facts) {
				for i := range l.Items {
					f.Nodes = append(f.Nodes, trimNode(&l.Items[i]).DeepCopy())
				}
			})
		})
	}}
}

// daemonSets reads the DaemonSets of agents.
func (r *reader) daemonSets(ctx context.Context) error {
	q := query{group: r.client.Apps, resource: "daemonsets"}
	return each(ctx, q, func() *appsv1.DaemonSetList { return &appsv1.DaemonSetList{} }, func(l *appsv1.DaemonSetList) {
		for i := range l.Items {
			if ds := &l.Items[i]; facts.Agent(ds.Spec.Template.Labels) != "" {
				r.add(func(f *facts.Facts) { f.DaemonSets = append(f.DaemonSets, trimDaemonSet(ds).DeepCopy()) })
			}
		}
	})
}

// maxEvents is the maximum number of Events.
const maxEvents = 20_000

// events reads Events of a namespace that match a field selector.
func (r *reader) events(ctx context.Context, namespace, selector string) error {
	return r.eventsThat(ctx, namespace, selector, func(*corev1.Event) bool { return true })
}

// eventsThat reads the Events of a namespace that match a field selector, and that keep accepts.
func (r *reader) eventsThat(ctx context.Context, namespace, selector string, keep func(*corev1.Event) bool) error {
	q := query{group: r.client.Core, resource: "events", namespace: namespace, fields: selector}
	return each(ctx, q, func() *corev1.EventList { return &corev1.EventList{} }, func(l *corev1.EventList) {
		kept := slices.DeleteFunc(l.Items, func(e corev1.Event) bool { return !keep(&e) })
		r.add(func(f *facts.Facts) { addEvents(f, kept) })
	})
}

// addEvents adds Events, or records once that there are too many.
func addEvents(f *facts.Facts, all []corev1.Event) {
	for i := range all {
		if len(f.Events) == maxEvents {
			u := facts.Unseen{What: "more Events", Why: fmt.Sprintf("at most %d Events are read", maxEvents)}
			if !slices.Contains(f.Unseen, u) {
				f.Unseen = append(f.Unseen, u)
			}
			return
		}
		all[i].ManagedFields = nil
		f.Events = append(f.Events, all[i].DeepCopy())
	}
}

// nodeEvents returns the step that reads the Events of a node, or of all nodes.
func (r *reader) nodeEvents(node string) step {
	selector := "involvedObject.kind=Node"
	if node != "" {
		selector += ",involvedObject.name=" + node
	}
	return step{"Events of nodes", func(ctx context.Context) error { return r.events(ctx, metav1.NamespaceDefault, selector) }}
}

func (r *reader) quotas(namespace string) step {
	return step{"ResourceQuotas of the namespace " + namespace, func(ctx context.Context) error {
		q := query{group: r.client.Core, resource: "resourcequotas", namespace: namespace}
		return each(ctx, q, func() *corev1.ResourceQuotaList { return &corev1.ResourceQuotaList{} }, func(l *corev1.ResourceQuotaList) {
			r.add(func(f *facts.Facts) {
				for i := range l.Items {
					trimMeta(&l.Items[i].ObjectMeta)
					f.Quotas = append(f.Quotas, l.Items[i].DeepCopy())
				}
			})
		})
	}}
}
