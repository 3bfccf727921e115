package read

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
)

// cluster reads the objects that can matter for the whole cluster, and asks the agents on a few nodes.
func (r *reader) cluster(ctx context.Context, steps []step) error {
	err := r.all(ctx, append(steps, r.nodes(), step{"pods that wait", r.waiting}, r.nodeEvents(""), step{"DaemonSets", r.daemonSets}))
	if err != nil {
		return err
	}
	if err := r.all(ctx, r.unready()); err != nil {
		return err
	}
	slices.SortFunc(r.facts.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	steps = r.warnings()
	if slices.ContainsFunc(r.facts.Pods, waits) {
		steps = append(steps, r.deviceClasses())
	}
	closely := doctor.Closely(r.facts)
	for _, name := range closely {
		steps = append(steps, r.agentsOf(name))
	}
	if err := r.all(ctx, steps); err != nil || !r.Ask {
		return err
	}
	return r.ask(ctx, askAllLimit, closely...)
}

// maxWaiting is the maximum number of pods whose Events are kept.
const maxWaiting = 20

// warnings returns the steps that read the Events about pods whose containers do not start, and about pods of agents that could
// not be created. The API server has no index of Events: a list for one pod takes as long as a list of all in its namespace.
func (r *reader) warnings() (steps []step) {
	var namespaces []string
	for _, ds := range r.facts.DaemonSets {
		namespaces = append(namespaces, ds.Namespace)
	}
	kept := map[string]bool{}
	for _, p := range r.facts.Pods {
		if p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending && len(kept) < maxWaiting {
			kept[p.Namespace+"/"+p.Name] = true
			namespaces = append(namespaces, p.Namespace)
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		steps = append(steps, step{"Events of the namespace " + namespace, func(ctx context.Context) error {
			return r.eventsThat(ctx, namespace, "type=Warning", func(e *corev1.Event) bool {
				return e.Reason == "FailedCreate" || e.InvolvedObject.Kind == "Pod" && kept[namespace+"/"+e.InvolvedObject.Name]
			})
		}})
	}
	return steps
}

// agentsOf returns the step that reads the pods of agents, and the pods that request GPUs, on a node.
func (r *reader) agentsOf(node string) step {
	return step{"pods of the node " + node, func(ctx context.Context) error {
		return r.pods(ctx, query{fields: "spec.nodeName=" + node}, func(p *corev1.Pod) {
			if concerns(p) {
				r.addPod(p)
			}
		})
	}}
}

// concerns reports whether a pod is of an agent, or requests GPUs.
func concerns(p *corev1.Pod) bool { return facts.RequestsGPU(p) || facts.Agent(p.Labels) != "" }

// waiting reads the pods that wait for a node or for their containers: agents, and pods that request GPUs.
func (r *reader) waiting(ctx context.Context) error {
	return r.pods(ctx, query{fields: "status.phase=Pending"}, func(p *corev1.Pod) {
		if concerns(p) {
			r.addPod(p)
		}
	})
}

// unready returns the steps that read the pods of agents that are not ready. The pods that wait are known. A field selector cannot
// find the others, so the steps read all pods of a DaemonSet, if it has others.
func (r *reader) unready() (steps []step) {
	for _, ds := range r.facts.DaemonSets {
		lacking := max(ds.Status.NumberUnavailable, ds.Status.DesiredNumberScheduled-ds.Status.NumberReady)
		for _, p := range r.facts.Pods {
			if metav1.IsControlledBy(p, ds) && p.DeletionTimestamp == nil { // the status does not count pods that are deleted
				lacking--
			}
		}
		if lacking <= 0 {
			continue
		}
		q := query{namespace: ds.Namespace, labels: metav1.FormatLabelSelector(ds.Spec.Selector)}
		steps = append(steps, step{"pods of the DaemonSet " + ds.Name, func(ctx context.Context) error {
			return r.pods(ctx, q, func(p *corev1.Pod) {
				if !isReady(p) {
					r.addPod(p)
				}
			})
		}})
	}
	return steps
}

func isReady(p *corev1.Pod) bool { return facts.Ready(p) && p.DeletionTimestamp == nil }

// node reads what concerns a node, and asks its agents.
func (r *reader) node(ctx context.Context, steps []step) error {
	name := r.Target.Node
	n := &corev1.Node{}
	if err := r.client.Core.Get().Resource("nodes").Name(name).Do(ctx).Into(n); apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster has no node %s: for a pod, write NAMESPACE/POD", name)
	} else if err := r.missing(ctx, "node "+name, err); err != nil {
		return err
	}
	if n.Name != "" {
		r.facts.Nodes = append(r.facts.Nodes, trimNode(n))
	}
	return r.aroundNode(ctx, name, steps)
}

// aroundNode reads the agents and the Events of a node, and asks the agents.
func (r *reader) aroundNode(ctx context.Context, name string, steps []step) error {
	if err := r.all(ctx, append(steps, r.nodeEvents(name), step{"DaemonSets", r.daemonSets}, r.agentsOf(name))); err != nil {
		return err
	}
	if err := r.all(ctx, r.warnings()); err != nil || !r.Ask {
		return err
	}
	return r.ask(ctx, askAllLimit, name)
}

// pod reads what concerns a pod: its node, or all nodes while it waits for one.
func (r *reader) pod(ctx context.Context, steps []step) error {
	namespace, name := r.Target.Namespace, r.Target.Pod
	p := &corev1.Pod{}
	err := r.client.Core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(p)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the pod %s/%s: %w", namespace, name, err)
	}
	steps = append(steps, r.quotas(namespace), step{"Events of the namespace " + namespace, func(ctx context.Context) error {
		if p.Name == "" { // the owner of the pod has the Event
			return r.events(ctx, namespace, "reason=FailedCreate")
		}
		return r.events(ctx, namespace, "involvedObject.kind=Pod,involvedObject.name="+name)
	}})
	if p.Name != "" {
		r.addPod(p)
	}
	if p.Spec.NodeName != "" {
		n := &corev1.Node{}
		err := r.client.Core.Get().Resource("nodes").Name(p.Spec.NodeName).Do(ctx).Into(n)
		if err := r.missing(ctx, "node "+p.Spec.NodeName, err); err != nil {
			return err
		}
		if n.Name != "" {
			r.facts.Nodes = append(r.facts.Nodes, trimNode(n))
		}
		return r.aroundNode(ctx, p.Spec.NodeName, steps)
	}
	if p.Name != "" {
		steps = append(steps, r.claims()...)
	}
	if err := r.all(ctx, append(steps, r.nodes(), step{"DaemonSets", r.daemonSets}, step{"pods that hold GPUs", r.holders})); err != nil || !r.Ask {
		return err
	}
	return r.askHolders(ctx)
}

// askHolders asks the exporters which processes use the GPUs that the pod of the target waits for.
func (r *reader) askHolders(ctx context.Context) error {
	var steps []step
	nodes := doctor.Holding(r.facts, r.Target) //nolint:contextcheck // it evaluates selectors, and does not wait
	for _, name := range nodes {
		steps = append(steps, step{"pods of the node " + name, func(ctx context.Context) error {
			return r.pods(ctx, query{fields: "spec.nodeName=" + name}, func(p *corev1.Pod) {
				if facts.Agent(p.Labels) == facts.Exporter {
					r.addPod(p)
				}
			})
		}})
	}
	if err := r.all(ctx, steps); err != nil {
		return err
	}
	r.processes = true
	return r.ask(ctx, askAllLimit, nodes...)
}

// holders reads the pods that have a node and request GPUs.
func (r *reader) holders(ctx context.Context) error {
	return r.pods(ctx, query{fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}, func(p *corev1.Pod) {
		if facts.RequestsGPU(p) {
			r.addPod(p)
		}
	})
}
