package validation

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"outrigger.dev/orchestrator/internal/model"
)

// annotationStage names, in a PodTemplate, the stage after which its pods run.
const annotationStage = "outrigger.dev/validates"

// maxChoice is among how many nodes the scheduler chooses for the one pod of a check.
const maxChoice = 20

// candidates returns the nodes on which a check can run: those that its template selects and
// on which the stage is ready.
func candidates(c model.Check, s model.State) []model.Node {
	waiting := map[string]bool{}
	owners := map[string]bool{}
	for _, d := range s.DaemonSets {
		if d.Stage == c.Template.GetAnnotations()[annotationStage] {
			owners[d.Name] = true
		}
	}
	for _, p := range s.Pods {
		if owners[p.Owner] {
			waiting[p.Node] = true
		}
	}
	selects := selector(c.Template)
	var found []model.Node
	for _, n := range s.Nodes {
		if n.Schedulable && !waiting[n.Name] && selects(n.Labels) {
			found = append(found, n)
		}
	}
	return found
}

// sort puts the healthy nodes first. Among them each run has an order of its own, so that runs
// spread over the nodes, and one that is repeated need not meet the node on which it failed.
// since is when the run was repeated, nil for the first one.
func (r *run) sort(since *metav1.Time) {
	salt := r.c.Of
	if since != nil {
		salt += since.UTC().Format(time.RFC3339)
	}
	order := map[string]string{}
	for _, n := range r.nodes {
		order[n.Name] = hash(salt + n.Name)
	}
	slices.SortFunc(r.nodes, func(a, b model.Node) int {
		return cmp.Or(cmp.Compare(rank(a, r.resource), rank(b, r.resource)),
			cmp.Compare(order[a.Name], order[b.Name]), cmp.Compare(a.Name, b.Name))
	})
}

// rank is lower for a node that is more likely to pass.
func rank(n model.Node, resource string) int {
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

// podName returns the name of the pod for a node.
func (r *run) podName(node string) string {
	if r.share.one() {
		return r.c.Name
	}
	return r.c.Name + "-" + hash(node)
}

// selector returns whether the pods of a template may run on a node with some labels.
func selector(template *unstructured.Unstructured) func(labels.Set) bool {
	required, _, _ := unstructured.NestedStringMap(template.Object, "template", "spec", "nodeSelector")
	terms, limited, _ := unstructured.NestedSlice(template.Object, affinityPath()...)
	var either []labels.Selector
	for _, t := range terms {
		either = append(either, term(t))
	}
	return func(node labels.Set) bool {
		return labels.SelectorFromSet(required).Matches(node) &&
			(!limited || slices.ContainsFunc(either, func(s labels.Selector) bool { return s.Matches(node) }))
	}
}

func affinityPath() []string {
	return []string{
		"template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
	}
}

// term returns what a term of a node affinity requires of labels: nothing matches a term that
// requires nothing, or that is invalid.
func term(t any) labels.Selector {
	fields, _ := t.(map[string]any)
	expressions, _, _ := unstructured.NestedSlice(fields, "matchExpressions")
	if len(expressions) == 0 {
		return labels.Nothing()
	}
	s := labels.NewSelector()
	for _, e := range expressions {
		expression, _ := e.(map[string]any)
		key, _, _ := unstructured.NestedString(expression, "key")
		operator, _, _ := unstructured.NestedString(expression, "operator")
		values, _, _ := unstructured.NestedStringSlice(expression, "values")
		if operator == "DoesNotExist" {
			operator = string(selection.DoesNotExist)
		}
		requirement, err := labels.NewRequirement(key, selection.Operator(strings.ToLower(operator)), values)
		if err != nil {
			return labels.Nothing()
		}
		s = s.Add(*requirement)
	}
	return s
}

// pod returns the pod of this name for a node. Without a device, it is bound to the node.
// With a device, the scheduler binds it, because only that knows what is free: to this node,
// or, if the check has one pod, to one of the best.
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
	all[LabelCheck], all[LabelOf] = r.c.Name, r.c.Of
	pod.SetLabels(all)
	if r.resource == "" {
		_ = unstructured.SetNestedField(pod.Object, node, "spec", "nodeName")
		return pod
	}
	choice := []string{node}
	if r.share.one() {
		for _, n := range r.nodes[1:min(len(r.nodes), maxChoice)] {
			choice = append(choice, n.Name)
		}
	}
	_ = unstructured.SetNestedSlice(pod.Object, terms(choice), affinityPath()[1:]...)
	return pod
}

// terms returns the terms of a node affinity for these nodes, which the terms of the template
// select already. A term can name one node.
func terms(nodes []string) []any {
	var all []any
	for _, n := range nodes {
		all = append(all, map[string]any{"matchFields": []any{
			map[string]any{"key": "metadata.name", "operator": "In", "values": []any{n}},
		}})
	}
	return all
}
