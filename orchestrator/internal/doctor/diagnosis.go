package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/cause"
)

// diagnosis has the facts with indices.
type diagnosis struct {
	facts.Facts

	nodes    map[string]*corev1.Node
	compact  map[string]*model.Node
	pods     map[string][]*corev1.Pod // by node
	byName   map[string]*corev1.Pod
	events   map[string][]*corev1.Event // by "Kind namespace/name"
	answers  map[string][]facts.Answer  // by node
	policies []model.Policy
	// closely has the nodes to look at closely, or is nil for all.
	closely map[string]bool
	// whole has the nodes whose pods were all read: the node of the target, or the nodes to look at closely.
	whole map[string]bool
	// holders hold the devices that the pod of the target waits for.
	holders []Holder
	// claimed has the claim of each allocated device. It is nil until it is needed.
	claimed map[deviceID]*resourcev1.ResourceClaim
}

func newDiagnosis(f facts.Facts) *diagnosis {
	d := &diagnosis{
		Facts: f, nodes: map[string]*corev1.Node{}, compact: map[string]*model.Node{}, pods: map[string][]*corev1.Pod{},
		byName: map[string]*corev1.Pod{}, events: map[string][]*corev1.Event{}, answers: map[string][]facts.Answer{},
	}
	for _, n := range f.Nodes {
		d.nodes[n.Name], d.compact[n.Name] = n, observe.NodeOf(n)
	}
	for _, p := range f.Pods {
		d.pods[p.Spec.NodeName] = append(d.pods[p.Spec.NodeName], p)
		d.byName[p.Namespace+"/"+p.Name] = p
	}
	for _, e := range f.Events {
		key := eventKey(e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name)
		d.events[key] = append(d.events[key], e)
	}
	for _, list := range d.events {
		slices.SortStableFunc(list, compareEvents)
	}
	for _, a := range f.Answers {
		d.answers[a.Node] = append(d.answers[a.Node], a)
	}
	for _, p := range f.Policies {
		d.policies = append(d.policies, observe.PolicyOf(p))
	}
	return d
}

// close reports whether a diagnosis looks at a node closely.
func (d *diagnosis) close(node string) bool { return d.closely == nil || d.closely[node] }

func eventKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

func eventTime(e *corev1.Event) time.Time {
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time).UTC()
}

// compareEvents compares Events by their times. Times have seconds, and the API server lists Events by their names, so
// Events of the same second are compared by their versions, which are numbers.
func compareEvents(a, b *corev1.Event) int {
	return cmp.Or(
		eventTime(a).Compare(eventTime(b)),
		cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), cmp.Compare(a.ResourceVersion, b.ResourceVersion),
	)
}

// newFinding returns a finding with the fix and the severity of the table of causes.
func newFinding(code cause.Code, subject, evidence, source string) Finding {
	row := code.Row()
	return Finding{
		Code: code, Severity: row.Severity, Link: linkOf(code), Subject: subject, Source: source, breaks: !harmless(code),
		Evidence: health.SingleLine(evidence, health.MaxMessage), Fix: row.Fix, Docs: "docs/causes.md#cause-" + strings.ToLower(string(code)),
	}
}

// ofNode returns a finding about a node.
func ofNode(code cause.Code, node, evidence, source string) Finding {
	f := newFinding(code, "node "+node, evidence, source)
	f.node = node
	f.Fix = strings.ReplaceAll(f.Fix, "NODE", node)
	return f
}

// since sets the time of a finding, unless it is zero.
func (f Finding) since(t time.Time) Finding {
	if !t.IsZero() {
		t = t.UTC()
		f.Since = &t
	}
	return f
}

func (f Finding) withFix(fix string) Finding {
	f.Fix = cmp.Or(fix, f.Fix)
	return f
}

// at moves a finding to another link.
func (f Finding) at(link string) Finding {
	f.Link = link
	return f
}

// order sorts findings: what breaks the chain first and what only informs last, then by link, then a cause before its
// signs, then by severity.
func order(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(
			boolOrder(a.breaks, b.breaks), boolOrder(!informs(a), !informs(b)), cmp.Compare(rank(a.Link), rank(b.Link)), boolOrder(b.derived, a.derived),
			cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)), cmp.Compare(b.Nodes, a.Nodes),
		)
	})
}

// boolOrder sorts true before false.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func severityRank(s cause.Severity) int {
	return slices.Index([]cause.Severity{cause.Fails, cause.Waits, cause.Starts}, s)
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
