package ready

import (
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// Observed is the observed state of the node. Its errors must not contain times that change,
// because each change of the message is a write to the Node.
type Observed struct {
	// Node is NVML's report in the last successful refresh, nil before the first one.
	Node *gpu.Node
	// Health is the health of the GPUs of Node.
	Health health.View
	// Err is the reason why the last refresh failed. If another agent has claimed NVML, or the
	// source was just closed, the driver was not asked, and Node is still valid. Any other error is
	// an answer of the driver, and means that the link does not hold, even if Node is set.
	Err error
	// Hang is set while the driver hangs.
	Hang error
	// Facts are the facts of the node contract. A fact that is missing here has not been read
	// yet.
	Facts map[contract.Name]contract.Fact
	// Cluster is the Node object, nil if it is not known.
	Cluster *Node
}

// finding is the reason why a link does not hold. Without a code, the link holds. Fix is empty if
// Text contains the fix.
type finding struct {
	status string
	cause.Cause
}

// fails returns the finding that a link does not hold, with the fix from the table of causes.
func fails(code cause.Code, text string) finding { return finding{False, cause.New(code, "", text)} }

// unknown returns the finding for a link that may or may not hold.
func unknown(code cause.Code, text, fix string) finding {
	return finding{Unknown, cause.Cause{Code: code, Text: text, Fix: fix}}
}

// withFix returns the finding with another fix, which is more specific than the fix in the table.
// The fix is "" if the text contains it.
func (f finding) withFix(fix string) finding {
	f.Fix = fix
	return f
}

// Derive returns the condition of a node, with the status, reason and message of the first link
// that does not hold. The chain must not be empty. The publisher sets LastTransition. The message
// is one line of less than 1 KiB. Equal states have equal messages.
func Derive(chain []Link, o Observed) nodestate.Condition {
	for _, l := range chain {
		if f := o.check(l); f.Code != "" {
			return condition(f.status, string(f.Code), f.Text, f.Fix)
		}
	}
	return condition(True, GPUsReady, o.summary(chain), "")
}

// check returns the finding for a link.
func (o Observed) check(l Link) finding {
	switch {
	case l == Driver:
		return o.driver()
	case l == MIG && (o.Cluster.excludesAgent("mig-manager") || o.Node != nil && !slices.ContainsFunc(o.Node.GPUs, hasMode)):
		return finding{} // no MIG manager runs on the node
	case l == Toolkit && o.Cluster.excludesAgent("container-toolkit"):
		return finding{} // another toolkit may be on the node
	}
	f := o.fact(partOf(l))
	if f.Code == "" && l == Plugin && o.Facts[contract.DRAReady].State != contract.Valid {
		return o.Cluster.offers()
	}
	return f
}

// hasMode reports whether a GPU has a MIG mode.
func hasMode(g gpu.GPU) bool { return g.MIG != nil }

// The limits for a message and for the fix at its end, in bytes. The problem can use the rest.
const (
	maxMessage = 1000
	maxFix     = 300
)

func condition(status, reason, problem, fix string) nodestate.Condition {
	if fix != "" {
		fix = "; " + oneLine(fix, maxFix)
	}
	return nodestate.Condition{Type: Condition, Status: status, Reason: reason, Message: oneLine(problem, maxMessage-len(fix)) + fix}
}

// oneLine makes a text from another program safe for a message, in one line of at most limit
// bytes.
func oneLine(s string, limit int) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Printable(text.Cut(strings.Join(lines, "; "), limit))
}
