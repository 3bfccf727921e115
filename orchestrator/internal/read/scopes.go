package read

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/view"
)

// nodesStep is the name of the step that reads all nodes.
const nodesStep = "nodes"

// Status returns the nodes and the DaemonSets of agents.
func Status(ctx context.Context, cfg Config) (facts.Facts, error) {
	return scope(ctx, cfg, func(r *reader) error {
		return r.all(ctx, []step{r.nodes(), {"DaemonSets", r.daemonSets}})
	})
}

// Top returns the nodes, the pods that hold GPUs, and the pods of agents that know the use of GPUs: of all nodes, or of the node
// of the target.
func Top(ctx context.Context, cfg Config) (facts.Facts, error) {
	return scope(ctx, cfg, func(r *reader) error {
		steps := []step{r.nodes()}
		q := query{fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
		if name := r.Target.Node; name != "" {
			n := &corev1.Node{}
			if err := r.client.Core.Get().Resource("nodes").Name(name).Do(ctx).Into(n); apierrors.IsNotFound(err) {
				return fmt.Errorf("the cluster has no node %s", name)
			} else if err := r.missing(ctx, "node "+name, err); err != nil {
				return err
			}
			r.facts.Nodes = append(r.facts.Nodes, trimNode(n))
			steps, q.fields = nil, "spec.nodeName="+name
		}
		return r.all(ctx, append(steps, step{"pods that hold GPUs", func(ctx context.Context) error {
			return r.pods(ctx, q, func(p *corev1.Pod) {
				agent := facts.Agent(p.Labels)
				if facts.RequestsGPU(p) || agent == facts.Exporter || agent == facts.DevicePlugin && r.Target.Node != "" {
					r.addPod(p)
				}
			})
		}}))
	})
}

// maxAsked is the maximum number of nodes whose agents Everything asks.
const maxAsked = 100

// Everything returns the facts for a diagnosis of any target, as an archive has them.
func Everything(ctx context.Context, cfg Config) (facts.Facts, error) {
	return scope(ctx, cfg, func(r *reader) error {
		r.processes = true
		steps := append(append(r.common(), r.claims()...), r.nodes(), r.nodeEvents(""), step{"DaemonSets", r.daemonSets}, step{"pods", func(ctx context.Context) error {
			return r.pods(ctx, query{}, func(p *corev1.Pod) {
				if facts.MayUseGPU(p) || facts.Agent(p.Labels) != "" {
					r.addPod(p)
				}
			})
		}})
		if err := r.all(ctx, steps); err != nil {
			return err
		}
		if err := r.all(ctx, r.aroundPods()); err != nil || !r.Ask {
			return err
		}
		return r.askAll(ctx)
	})
}

// aroundPods returns the steps that read the quotas and the Events of the namespaces with agents, or with pods that request
// GPUs.
func (r *reader) aroundPods() []step {
	var namespaces []string
	for _, p := range r.facts.Pods {
		namespaces = append(namespaces, p.Namespace)
	}
	slices.Sort(namespaces)
	var steps []step
	for _, namespace := range slices.Compact(namespaces) {
		steps = append(steps, r.quotas(namespace), step{"Events of the namespace " + namespace, func(ctx context.Context) error {
			if err := r.events(ctx, namespace, "involvedObject.kind=Pod"); err != nil {
				return err
			}
			return r.events(ctx, namespace, "reason=FailedCreate") // of the owner of a pod that a quota forbids
		}})
	}
	return steps
}

// askAll asks the agents of GPU nodes, of nodes with a cause first.
func (r *reader) askAll(ctx context.Context) error {
	var nodes []*corev1.Node
	for _, n := range r.facts.Nodes {
		if observe.NodeOf(n).HasGPU() {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *corev1.Node) int {
		return ready(a) - ready(b)
	})
	if left := len(nodes) - maxAsked; left > 0 {
		r.facts.Unseen = append(r.facts.Unseen, facts.Unseen{
			What: fmt.Sprintf("answers of agents on %d nodes", left), Why: fmt.Sprintf("at most %d nodes are asked, nodes with a cause first", maxAsked),
		})
		nodes = nodes[:maxAsked]
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return r.ask(ctx, gatherLimit, names...)
}

// Down returns the nodes that are not Ready. Their kubelet runs no commands and returns no logs.
func Down(nodes []*corev1.Node) map[string]bool {
	down := map[string]bool{}
	for _, n := range nodes {
		down[n.Name] = observe.NodeOf(n).NotReady
	}
	return down
}

// ready returns 1 for a node whose GPUs can be used, and 0 for another node.
func ready(n *corev1.Node) int {
	if view.Works(observe.NodeOf(n)) {
		return 1
	}
	return 0
}

// scope reads a part of the cluster. The error says that no API server answers, that the target does not exist, or that the
// nodes cannot be read, because nothing can be shown without them.
func scope(ctx context.Context, cfg Config, do func(*reader) error) (facts.Facts, error) {
	r := newReader(cfg)
	var err error
	if r.facts.Server, err = r.client.Version(ctx); err != nil {
		return facts.Facts{}, err
	}
	if err = do(r); err != nil {
		return facts.Facts{}, err
	}
	for _, u := range r.facts.Unseen {
		if u.What == nodesStep {
			return facts.Facts{}, fmt.Errorf("%s; docs/kubectl-outrigger.md lists the rights that each command needs", u.Why)
		}
	}
	r.sort()
	slices.SortFunc(r.facts.Events, func(a, b *corev1.Event) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return r.facts, nil
}
