package pass

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// The limits of the lists in a status.
const (
	maxProblems = 10
	maxExamples = 10
	// maxNamed is the maximum number of names in a message.
	maxNamed = 3
)

// key identifies a problem.
type key struct {
	stage string
	code  cause.Code
}

// problem is a cause and the nodes that have it.
type problem struct {
	trouble
	nodes  []string
	failed bool
	// others is the number of pods without a node.
	others int
}

// add adds a cause on a node, and reports whether it counts as a failure.
func (x *index) add(stage, node string, t trouble) bool {
	failed := t.severity == cause.Fails
	if !failed && !t.since.IsZero() {
		left := patience - x.now.Sub(t.since)
		failed = left <= 0
		x.again = model.Soonest(x.again, max(left, 0))
	}
	if !failed && t.severity == cause.Starts {
		return failed
	}
	if t.Code == cause.NodeNotReady {
		stage = "" // one problem for all stages
	}
	k := key{stage, t.Code}
	p := x.problems[k]
	switch {
	case p == nil:
		p = &problem{trouble: t}
		x.problems[k] = p
	case node != "" && (len(p.nodes) == 0 || node < p.nodes[0]):
		// Use the text of the first node by name, so that the text does not depend on the order.
		since := p.since
		p.trouble = t
		p.since = since
	}
	p.failed = p.failed || failed
	if t.since.Before(p.since) {
		p.since = t.since
	}
	if node == "" {
		p.others++
		return failed
	}
	p.nodes = append(p.nodes, node)
	if last := len(p.nodes) - 1; node < p.nodes[0] {
		p.nodes[0], p.nodes[last] = p.nodes[last], p.nodes[0]
	}
	return failed
}

// addNodes adds the causes of nodes whose GPUs cannot be used, and returns the number of failed
// nodes. It skips the cause of an agent that only waits, in three cases: a stage is not settled,
// the node has a pod that is not ready, or the agent is missing and pods are missing.
func (w *walk) addNodes(settled, missing bool) (failed int) {
	for _, n := range w.state.Nodes {
		if !n.NotReady && (n.GPUReady == "True" || n.GPUReady == "") || w.index.explained[n.Name] || !n.HasGPU() {
			continue
		}
		t := nodeCause(n)
		switch {
		case n.NotReady:
			t = nodeDown(n, n.Since)
		case t.severity != cause.Fails && (w.index.troubled[n.Name] || !settled || missing && strings.HasSuffix(n.Reason, "NotReady")):
			continue
		}
		if w.index.add("", n.Name, t) {
			failed++
		}
	}
	return failed
}

// sorted returns the problems, worst first.
func (x *index) sorted() []model.Problem {
	keys := slices.SortedFunc(maps.Keys(x.problems), x.compare)
	var out []model.Problem
	for _, k := range keys[:min(len(keys), maxProblems)] {
		out = append(out, x.problems[k].report(k))
	}
	return out
}

// compare orders problems, the worse one first: failures before others, then by the number of
// nodes.
func (x *index) compare(a, b key) int {
	p, q := x.problems[a], x.problems[b]
	return cmp.Or(boolToInt(q.failed)-boolToInt(p.failed), q.count()-p.count(), cmp.Compare(a.stage, b.stage), cmp.Compare(a.code, b.code))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *problem) count() int { return p.others + len(p.nodes) }

func (p *problem) report(k key) model.Problem {
	nodes := slices.Compact(slices.Sorted(slices.Values(p.nodes)))
	return model.Problem{
		Cause: singleLine(string(k.code), 63), Stage: k.stage, Nodes: p.others + len(nodes), Examples: nodes[:min(len(nodes), maxExamples)],
		Message: singleLine(p.Text, maxText), Fix: singleLine(p.Fix, maxText), Since: metav1.NewTime(p.since.UTC().Truncate(time.Second)),
	}
}

// worst returns the worst problem of a stage in one sentence. If the stage has none, it returns the
// problem of nodes that are not Ready, or "".
func (x *index) worst(stage string) string {
	worst, found := key{"", cause.NodeNotReady}, false
	for k := range x.problems {
		if k.stage == stage && (!found || x.compare(k, worst) < 0) {
			worst, found = k, true
		}
	}
	if p := x.problems[worst]; p != nil {
		return sentence(p.report(worst))
	}
	return ""
}

// sentence returns a problem as text: the cause, the nodes, the message, and the fix.
func sentence(p model.Problem) string {
	out := joinReason(summary(p), strings.TrimSuffix(p.Message, "."))
	if p.Fix != "" && !strings.HasSuffix(p.Message, p.Fix) { // the message of GPUReady already has the fix
		out += "; fix: " + p.Fix
	}
	return out
}

// summary returns the cause and the nodes of a problem as text.
func summary(p model.Problem) string {
	if len(p.Examples) == 0 {
		return fmt.Sprintf("%s of %d pods without a node", p.Cause, p.Nodes)
	}
	return p.Cause + " on " + abbreviate(p.Examples, p.Nodes)
}

// abbreviate returns the first names, and the number of the others.
func abbreviate(names []string, all int) string {
	named := names[:min(len(names), maxNamed)]
	out := strings.Join(named, ", ")
	if more := all - len(named); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
