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
	"outrigger.dev/pkg/text"
)

// Trouble is a cause that keeps a pod or a node from being ready. Its code may be a reason of the
// kubelet or the scheduler that is not in the table of causes.
type Trouble struct {
	cause.Cause
	Severity cause.Severity
	// Since is zero if it is not known.
	Since time.Time
}

// newTrouble returns a Trouble with the severity and the fix from the row of code in the table of
// causes. The code of the Trouble is the parameter word, a reason of the kubelet, unless it is
// empty.
func newTrouble(code cause.Code, word, message string, since time.Time) Trouble {
	row := code.Row()
	return Trouble{
		Cause:    cause.Cause{Code: cmp.Or(cause.Code(word), code), Text: message, Fix: row.Fix},
		Severity: row.Severity, Since: since,
	}
}

// canonicalCode returns the code in the table of causes for a reason of the kubelet or the
// scheduler.
func canonicalCode(word string) cause.Code {
	switch word {
	case "ErrImagePull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		return cause.ImagePullBackOff
	case "Error", "ContainerCannotRun", "StartError", "Completed":
		return cause.CrashLoopBackOff
	case "SchedulerError":
		return cause.Unschedulable
	}
	return cause.Code(word)
}

// podTrouble reports whether a pod of a DaemonSet has failed, and why. The cause has no code if it
// belongs to the node.
func (v *View) podTrouble(p *model.Pod) (t Trouble, failed bool) {
	loops := !p.Loops.IsZero() && !v.past(p.Loops, 0)
	t, own := PodTrouble(p, loops)
	node := cmp.Or(v.nodes[p.Node], &model.Node{Name: p.Node})
	if !own && (node.NotReady || p.Phase == "Running" && node.GPUReady != "" && node.GPUReady != "True") {
		return Trouble{}, v.failed[p.Node]
	}
	if failed = loops || v.lasted(t, false); !failed {
		return Trouble{}, false
	}
	return t, true
}

// PodTrouble returns why a pod is not ready, or why it crashes if loops is set. own says that the pod has a
// cause of the kubelet or the scheduler. Otherwise, the cause of its node may explain it.
func PodTrouble(p *model.Pod, loops bool) (t Trouble, own bool) {
	code := canonicalCode(p.Reason)
	if loops {
		code = cause.CrashLoopBackOff
	}
	switch own = true; {
	case p.Deleting:
		t = newTrouble(cause.Terminating, "", "the pod is being deleted", p.Since)
	case code.Row().Section == "pod" && code.Row().Severity == cause.Fails:
		t = newTrouble(code, "", withoutBackOff(p.Message), p.Since)
	case p.Phase == "Failed":
		t = newTrouble(cause.PodFailed, p.Reason, withoutBackOff(p.Message), p.Since)
	case p.Phase != "Running":
		t, own = newTrouble(cause.ContainerCreating, p.Reason, cmp.Or(p.Message, "the containers have not started"), p.Since), false
	default:
		t, own = newTrouble(cause.NotReady, "", cmp.Or(p.Message, "the agent runs and is not ready"), p.Since), false
	}
	t.Fix = strings.NewReplacer("NAMESPACE", p.Namespace, "POD", p.Name).Replace(t.Fix)
	return t, own
}

// withoutBackOff returns a message of the kubelet without the parts that change with each retry:
// the delay, and the name of the pod.
func withoutBackOff(message string) string {
	const retry = "Back-off pulling image "
	if _, pull, ok := strings.Cut(message, ": ErrImagePull: "); ok && strings.HasPrefix(message, retry) {
		return pull
	}
	if _, rest, ok := strings.Cut(message, "restarting failed container="); ok {
		name, _, _ := strings.Cut(rest, " ")
		return "the container " + name + " ends again and again"
	}
	return message
}

// SingleLine prepares text from the cluster for a status: one printable line. The parameter most is
// its maximum size in bytes.
func SingleLine(s string, most int) string {
	return text.Cut(text.Printable(strings.Join(strings.Fields(s), " ")), most)
}

// MaxMessage is the maximum size of a message in a status, and maxText the maximum size of a text
// of a problem, in bytes.
const (
	MaxMessage = 1000
	maxText    = 500
)

// The limits of the lists in a status.
const (
	MaxProblems = 10
	// MaxExamples is the maximum number of nodes or other objects that a list names.
	MaxExamples = 10
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
	Trouble
	nodes  []string
	failed bool
	// others is the number of pods without a node.
	others int
}

// add adds a cause on a node, or of a pod without a node. failed says that the cause has lasted.
func (v *View) add(stage, node string, t Trouble, failed bool) {
	k := key{stage, t.Code}
	p := v.problems[k]
	switch {
	case p == nil:
		p = &problem{Trouble: t}
		v.problems[k] = p
	case node != "" && (len(p.nodes) == 0 || node < p.nodes[0]):
		// Use the text of the first node by name, so that the text does not depend on the order.
		since := p.Since
		p.Trouble = t
		p.Since = since
	}
	p.failed = p.failed || failed
	if t.Since.Before(p.Since) {
		p.Since = t.Since
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
	if p.Since.IsZero() {
		p.Since = v.state.Now
		for _, old := range v.state.Policy.Status.Problems {
			if old.Cause == string(k.code) && old.Stage == k.stage {
				p.Since = old.Since.Time
			}
		}
	}
	nodes := slices.Compact(slices.Sorted(slices.Values(p.nodes)))
	return model.Problem{
		Cause: SingleLine(string(k.code), 63), Stage: k.stage, Nodes: p.others + len(nodes), Examples: Examples(nodes),
		Message: SingleLine(p.Text, maxText), Fix: SingleLine(p.Fix, maxText), Since: metav1.NewTime(p.Since.UTC().Truncate(time.Second)),
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

// Examples returns the first names.
func Examples(names []string) []string { return names[:min(len(names), MaxExamples)] }

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
