package validation

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
)

// run is the state of a check in one pass.
type run struct {
	c model.Check
	s model.State
	// resource is the device that its pods request, or "".
	resource string
	// nodes are the nodes that can run the check.
	nodes []*model.Node
	// invalid is the error of a template that is invalid and therefore selects no node.
	invalid error
	// known has all nodes by name.
	known map[string]*model.Node
	// pods are the pods of this run, with their states.
	pods []judged
	// names has the names of all pods of the check, including pods of earlier runs.
	names map[string]bool
	// n is the number of pods of this run by state.
	n map[string]int
	// left is the number of nodes that still need a pod.
	left int

	create []*unstructured.Unstructured
	remove []model.Seen
	again  time.Duration
}

// newRun finds the nodes and judges the pods. It removes pods of earlier runs.
func newRun(c model.Check, s model.State) *run {
	r := &run{c: c, s: s, known: map[string]*model.Node{}, names: map[string]bool{}, n: map[string]int{}}
	r.candidates()
	for _, n := range s.Nodes {
		r.known[n.Name] = n
	}
	for _, p := range s.Pods {
		if p.Owner != c.Name || p.Namespace != c.Template.GetNamespace() {
			continue
		}
		r.names[p.Name] = true
		if p.Revision != c.Revision {
			r.delete(p)
			continue
		}
		r.judge(p)
	}
	return r
}

// start creates pods until the check runs on the desired number of nodes. since is the time of the
// repetition, or nil for the first run.
func (r *run) start(since *metav1.Time) {
	r.sort(since)
	names, nodes := map[string]bool{}, map[string]bool{}
	for _, p := range r.pods {
		names[p.Name], nodes[p.Node] = true, true
	}
	base := len(r.pods)
	var free []*model.Node
	for _, n := range r.nodes {
		if !names[r.podName(n.Name)] && !nodes[n.Name] {
			free = append(free, n)
			base++
		}
	}
	if r.c.Nodes == oneNode {
		base = min(base, 1)
	}
	r.left = max(share(r.c.Nodes, base)-len(r.pods), 0)
	for _, n := range free {
		if len(r.create) == r.left || r.n[Running]+len(r.create) >= maxActive {
			return
		}
		// The pod of an earlier run may still be ending.
		if name := r.podName(n.Name); !r.names[name] {
			r.create = append(r.create, r.pod(name, n.Name))
		}
	}
}

// drop removes the pods for which leaves returns true.
func (r *run) drop(leaves func(judged) bool) {
	r.pods = slices.DeleteFunc(r.pods, func(p judged) bool {
		if !leaves(p) {
			return false
		}
		r.n[p.state]--
		r.delete(p.Pod)
		return true
	})
}

// rebooted reports whether a pod has passed, and its node has since reported that no CUDA program
// has run on it.
func (r *run) rebooted(p judged) bool {
	n := r.known[p.Node]
	return p.state == Passed && n.GPUReady == "False" && strings.HasPrefix(n.Reason, "CUDA") && n.Since.After(p.Since)
}

// delete adds a pod to the deletions, unless it is already being deleted.
func (r *run) delete(p *model.Pod) {
	if p.Deleting {
		return
	}
	r.remove = append(r.remove, model.Seen{
		Ref: model.Ref{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name}, Ours: true,
	})
}

// lookAfter requests another pass after d at the latest.
func (r *run) lookAfter(d time.Duration) {
	r.again = model.Soonest(r.again, max(d, time.Second))
}
