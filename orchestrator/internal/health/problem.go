package health

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
	MaxProblems = 10
	maxExamples = 10
	// MaxNamed is the maximum number of names in a message.
	MaxNamed = 3
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

// add adds a cause on a node, or of a pod without a node. failed says that the cause has lasted.
func (v *View) add(stage, node string, t trouble, failed bool) {
	k := key{stage, t.Code}
	p := v.problems[k]
	switch {
	case p == nil:
		p = &problem{trouble: t}
		v.problems[k] = p
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
		return
	}
	p.nodes = append(p.nodes, node)
	if last := len(p.nodes) - 1; node < p.nodes[0] {
		p.nodes[0], p.nodes[last] = p.nodes[last], p.nodes[0]
	}
}

// Problems returns the worst problems, and the number of all.
func (v *View) Problems() (worst []model.Problem, all int) {
	keys := slices.SortedFunc(maps.Keys(v.problems), v.compare)
	for _, k := range keys[:min(len(keys), MaxProblems)] {
		worst = append(worst, v.report(k))
	}
	return worst, len(keys)
}

// compare orders problems, the worse one first: failures before others, then by the number of
// nodes.
func (v *View) compare(a, b key) int {
	p, q := v.problems[a], v.problems[b]
	return cmp.Or(boolToInt(q.failed)-boolToInt(p.failed), q.count()-p.count(), cmp.Compare(a.stage, b.stage), cmp.Compare(a.code, b.code))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *problem) count() int { return p.others + len(p.nodes) }

// report returns a problem for the status. If the cluster does not say since when a cause holds, the
// problem began when it was first published.
func (v *View) report(k key) model.Problem {
	p := v.problems[k]
	if p.since.IsZero() {
		p.since = v.state.Now
		for _, old := range v.state.Policy.Status.Problems {
			if old.Cause == string(k.code) && old.Stage == k.stage {
				p.since = old.Since.Time
			}
		}
	}
	nodes := slices.Compact(slices.Sorted(slices.Values(p.nodes)))
	return model.Problem{
		Cause: SingleLine(string(k.code), 63), Stage: k.stage, Nodes: p.others + len(nodes), Examples: nodes[:min(len(nodes), maxExamples)],
		Message: SingleLine(p.Text, maxText), Fix: SingleLine(p.Fix, maxText), Since: metav1.NewTime(p.since.UTC().Truncate(time.Second)),
	}
}

// Sentence returns a problem as text: the cause, the nodes, the message, and the fix.
func Sentence(p model.Problem) string {
	out := JoinReason(Summary(p), strings.TrimSuffix(p.Message, "."))
	if p.Fix != "" && !strings.HasSuffix(p.Message, p.Fix) { // the message of GPUReady already has the fix
		out += "; fix: " + p.Fix
	}
	return out
}

// Summary returns the cause and the nodes of a problem as text.
func Summary(p model.Problem) string {
	if len(p.Examples) == 0 {
		return fmt.Sprintf("%s of %d pods without a node", p.Cause, p.Nodes)
	}
	return p.Cause + " on " + Abbreviate(p.Examples, p.Nodes)
}

// Abbreviate returns the first names, and the number of the others.
func Abbreviate(names []string, all int) string {
	named := names[:min(len(names), MaxNamed)]
	out := strings.Join(named, ", ")
	if more := all - len(named); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// JoinReason joins an event and its reason.
func JoinReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
