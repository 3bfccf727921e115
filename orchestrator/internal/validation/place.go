package validation

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"outrigger.dev/orchestrator/internal/model"
)

// maxChoice is the maximum number of nodes among which the scheduler chooses for the only pod of a
// check.
const maxChoice = 20

// candidates sets the nodes that can run the check: schedulable nodes that match its template, if
// the pods of the stage are ready there.
func (r *run) candidates() {
	waiting := map[string]bool{}
	for _, p := range r.s.Pods {
		if slices.Contains(r.c.DaemonSets, p.Owner) && !(p.Ready && p.Loops.IsZero()) {
			waiting[p.Node] = true
		}
	}
	spec, err := r.c.PodSpec()
	if err != nil {
		r.invalid = err
		return
	}
	r.resource = resource(spec)
	required := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity)
	var node corev1.Node // reused, because a Node is large
	for _, n := range r.s.Nodes {
		if !n.Schedulable || waiting[n.Name] || len(r.c.Only) > 0 && !slices.Contains(r.c.Only, n.Name) {
			continue
		}
		node.Name, node.Labels = n.Name, n.Labels
		matches, err := required.Match(&node)
		if matches {
			r.nodes = append(r.nodes, n)
		} else if err != nil {
			r.invalid = fmt.Errorf("affinity of the chart validator: %w", err)
		}
	}
}

// sort puts the healthy nodes first. Nodes of equal rank have a different order in each run. So the
// runs spread over the nodes, and a repeated run can avoid the node that failed. since is the time
// of the repetition, or nil for the first run.
func (r *run) sort(since *metav1.Time) {
	salt := r.c.Revision
	if since != nil {
		salt += since.UTC().Format(time.RFC3339)
	}
	order := map[string]string{}
	for _, n := range r.nodes {
		order[n.Name] = hash(salt + n.Name)
	}
	slices.SortFunc(r.nodes, func(a, b *model.Node) int {
		return cmp.Or(cmp.Compare(rank(a, r.resource), rank(b, r.resource)),
			cmp.Compare(order[a.Name], order[b.Name]), cmp.Compare(a.Name, b.Name))
	})
}

// rank returns a lower number for a node that is more likely to pass.
func rank(n *model.Node, resource string) int {
	rank := 0
	if n.GPUReady != "True" && !strings.HasPrefix(n.Reason, "CUDA") {
		rank++
	}
	if resource != "" && n.Allocatable[resource] == 0 {
		rank += 2
	}
	return rank
}

func hash(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))[:10]
}

// podName returns the name of the check's pod for a node.
func (r *run) podName(node string) string {
	if r.c.Nodes == oneNode {
		return r.c.Name
	}
	return r.c.Name + "-" + hash(node)
}

// pod returns the check's pod for a node. A pod without a device is bound to the node. A pod with a
// device is bound by the scheduler, because only the scheduler knows which devices are free: to
// this node or, if the check has one pod, to one of the best nodes.
func (r *run) pod(name, node string) *unstructured.Unstructured {
	body, _, _ := unstructured.NestedMap(r.c.Template.Object, "template")
	pod := &unstructured.Unstructured{Object: body}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(name)
	pod.SetNamespace(r.c.Template.GetNamespace())
	all := pod.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[LabelCheck], all[LabelRevision] = r.c.Name, r.c.Revision
	pod.SetLabels(all)
	if r.resource == "" {
		_ = unstructured.SetNestedField(pod.Object, node, "spec", "nodeName")
		return pod
	}
	choice := []any{term(node)}
	if r.c.Nodes == oneNode {
		for _, n := range r.nodes[1:min(len(r.nodes), maxChoice)] {
			choice = append(choice, term(n.Name))
		}
	}
	_ = unstructured.SetNestedSlice(pod.Object, choice, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	return pod
}

// term returns the term of a node affinity for a node, which already matches the terms of the template. A term can name
// only one node.
func term(node string) map[string]any {
	return map[string]any{"matchFields": []any{
		map[string]any{"key": "metadata.name", "operator": "In", "values": []any{node}},
	}}
}

// Values of Check.Nodes with a special meaning.
const (
	// allNodes includes nodes that are added later.
	allNodes = "all"
	// oneNode runs one pod, which has the name of the check.
	oneNode = "1"
)

// share returns how many of n nodes run a check. nodes is a number, a percentage or allNodes: the
// schema of the chart validator accepts no other values.
func share(nodes string, n int) int {
	if nodes == allNodes {
		return n
	}
	of := intstr.Parse(nodes)
	count, err := intstr.GetScaledValueFromIntOrPercent(&of, n, true)
	if err != nil {
		count = 1
	}
	return min(count, n)
}

// resource returns the extended resource that the pods request, or "".
func resource(spec corev1.PodSpec) string {
	var found []string
	for _, container := range spec.Containers {
		for name := range container.Resources.Limits {
			if strings.Contains(string(name), "/") {
				found = append(found, string(name))
			}
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
