package read

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/facts"
)

// waiting reads the pods that wait for a node or for their containers: agents, and pods that request GPUs.
func (r *reader) waiting(ctx context.Context) error {
	return r.pods(ctx, query{fields: "status.phase=Pending"}, func(p *corev1.Pod) {
		if facts.RequestsGPU(p) || facts.Agent(p.Labels) != "" {
			r.addPod(p)
		}
	})
}

// unready reads the DaemonSets of agents, and then the pods of those that lack a ready pod.
func (r *reader) unready(ctx context.Context) error {
	if err := r.daemonSets(ctx); err != nil {
		return err
	}
	var steps []step
	for _, ds := range r.facts.DaemonSets {
		if ds.Status.NumberUnavailable == 0 && ds.Status.DesiredNumberScheduled == ds.Status.NumberReady {
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
	return r.all(ctx, steps)
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) && p.DeletionTimestamp == nil
}

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
	steps = append(steps, r.nodeEvents(name), step{"DaemonSets", r.daemonSets}, step{"pods of the node " + name, func(ctx context.Context) error {
		return r.pods(ctx, query{fields: "spec.nodeName=" + name}, func(p *corev1.Pod) {
			if facts.RequestsGPU(p) || facts.Agent(p.Labels) != "" {
				r.addPod(p)
			}
		})
	}})
	if err := r.all(ctx, steps); err != nil || !r.Ask {
		return err
	}
	return r.ask(ctx, name)
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
	return r.all(ctx, append(steps, r.nodes(), step{"pods that hold GPUs", r.holders}))
}

// holders reads the pods that have a node and request GPUs.
func (r *reader) holders(ctx context.Context) error {
	return r.pods(ctx, query{fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}, func(p *corev1.Pod) {
		if facts.RequestsGPU(p) {
			r.addPod(p)
		}
	})
}
