// Package doctor derives from the facts of a cluster why GPUs or pods do not work. It does no I/O.
//
//	facts.Facts + facts.Target ─▶ findings of each node and pod ─▶ Report: the first break of the chain first
package doctor

import (
	"fmt"
	"slices"
	"time"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// Report is the result of a diagnosis.
type Report struct {
	// Target is the target for people: "node n1".
	Target string    `json:"target"`
	Taken  time.Time `json:"taken"`
	// Verdict is one sentence. Severity is the worst severity of the findings, or empty without findings.
	Verdict  string         `json:"verdict"`
	Severity cause.Severity `json:"severity,omitempty"`
	// Findings has the first break of the chain first.
	Findings []Finding `json:"findings"`
	// Chain has the links of a node, or of the node of a pod.
	Chain []Link `json:"chain,omitempty"`
	// Holders hold the devices that a pod waits for, the most useful ones first.
	Holders []Holder `json:"holders,omitempty"`
	// Notes are facts that explain no failure.
	Notes  []string       `json:"notes,omitempty"`
	Unseen []facts.Unseen `json:"unseen,omitempty"`

	// blind says that the target could not be read, or does not exist.
	blind bool
}

// Finding is a cause with its evidence.
type Finding struct {
	Code     cause.Code     `json:"code"`
	Severity cause.Severity `json:"severity"`
	// Link is the name of the broken link.
	Link string `json:"link"`
	// Subject is the object with the cause: "node n1", "pod team-a/train".
	Subject string `json:"subject"`
	// Nodes is the number of nodes with the cause, and Examples lists the names of some. A finding of one object
	// has neither.
	Nodes    int      `json:"nodes,omitempty"`
	Examples []string `json:"examples,omitempty"`
	// Evidence is the text of the agent, the kubelet or the scheduler. Source names where it stands.
	Evidence string `json:"evidence"`
	Source   string `json:"source"`
	Fix      string `json:"fix"`
	// Since is nil if it is not known.
	Since *time.Time `json:"since,omitempty"`
	// Follows says what follows from the cause.
	Follows string `json:"follows,omitempty"`
	// Docs is the place of the code in the documentation.
	Docs string `json:"docs"`

	// breaks says that the GPUs of the node, or the pod, cannot be used because of the cause.
	breaks bool
	// derived says that an earlier link can explain the finding.
	derived bool
	node    string
	// count is the number of nodes or pods.
	count int
}

// Link is the state of a link of the chain.
type Link struct {
	Name string `json:"name"`
	// State is ok, broken, follows (from a broken link before it), or unknown.
	State string     `json:"state"`
	Code  cause.Code `json:"code,omitempty"`
}

// The states of a Link.
const (
	OK      = "ok"
	Broken  = "broken"
	Follows = "follows"
	Unknown = "unknown"
)

// The exit codes of a diagnosis.
const (
	exitBlind = 1
	// ExitWaits: something waits or starts.
	ExitWaits = 3
	// ExitFails: something has failed, and a person must act.
	ExitFails = 4
)

// ExitCode returns 0 without findings, 1 if the target could not be read or does not exist, 3 if something waits or starts, and 4 if
// something has failed.
func (r Report) ExitCode() int {
	switch r.Severity {
	case "":
		if r.blind {
			return exitBlind
		}
		return 0
	case cause.Fails:
		return ExitFails
	default:
		return ExitWaits
	}
}

// Diagnose returns the report about a target.
func Diagnose(f facts.Facts, t facts.Target) Report {
	d := newDiagnosis(f)
	r := Report{Target: t.String(), Taken: f.Taken, Findings: []Finding{}, Unseen: slices.Clone(f.Unseen)}
	switch {
	case t.Pod != "":
		d.pod(&r, t)
	case t.Node != "":
		d.node(&r, t.Node)
	default:
		d.cluster(&r)
		r.Notes = append(r.Notes, d.notes()...)
	}
	if len(r.Unseen) > 0 && !r.blind {
		r.Verdict += fmt.Sprintf(" (%s could not be read)", plural(len(r.Unseen), "part"))
	}
	for _, f := range r.Findings {
		if !informs(f) {
			r.Severity = worse(r.Severity, f.Severity)
		}
	}
	return r
}

func worse(a, b cause.Severity) cause.Severity {
	order := map[cause.Severity]int{"": 0, cause.Starts: 1, cause.Waits: 2, cause.Fails: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}
