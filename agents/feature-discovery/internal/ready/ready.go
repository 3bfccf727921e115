package ready

import (
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// Observed is what is known of the node. Its errors must not contain a running
// time, because each change of the message is a write to the Node.
type Observed struct {
	// Node is what NVML reported in the last successful refresh, nil before the
	// first one.
	Node *gpu.Node
	// Err is why the last refresh failed. While another agent has claimed NVML, or
	// the source was just closed, the driver was not asked, and Node still holds.
	// Any other error is the driver's own answer and breaks the link, whatever
	// Node is.
	Err error
	// Hang is set while the driver hangs.
	Hang error
	// Facts are those of the node contract. A fact that is missing here has not
	// been read yet.
	Facts map[contract.Name]contract.Fact
	// Labels are those of the Node, as far as they are known.
	Labels map[string]string
}

// finding is why a link does not hold. A finding without a code means that it holds. Its Fix is
// empty if its Text contains it.
type finding struct {
	status string
	cause.Cause
}

// fails returns the finding that a link does not hold, with the fix of the table.
func fails(code cause.Code, text string) finding { return finding{False, cause.New(code, "", text)} }

// unknown returns the finding that it is not known whether a link holds.
func unknown(code cause.Code, text, fix string) finding {
	return finding{Unknown, cause.Cause{Code: code, Text: text, Fix: fix}}
}

// with returns a finding with a fix that says more than the table's, or "" if the text has it.
func (f finding) withFix(fix string) finding {
	f.Fix = fix
	return f
}

// Derive returns the condition of a node with this chain, which is not empty: the
// status, reason and message of the first link that does not hold. The publisher
// sets LastTransition. The message is one line of less than 1 KiB and changes only
// if its content does.
func Derive(chain []Link, o Observed) nodestate.Condition {
	for _, l := range chain {
		if f := o.check(l); f.Code != "" {
			return condition(f.status, string(f.Code), f.Text, f.Fix)
		}
	}
	return condition(True, GPUsReady, o.summary(chain), "")
}

// check returns why a link does not hold.
func (o Observed) check(l Link) finding {
	switch {
	case l == Driver:
		return o.driver()
	case l == MIG && (o.excludesAgent("mig-manager") || o.Node != nil && !slices.ContainsFunc(o.Node.GPUs, hasMode)):
		return finding{} // no MIG manager runs on the node
	}
	return o.fact(partOf(l))
}

// keepsOff reports whether the labels of the Node keep an agent off it: nobody writes its facts
// then. They are those of NVIDIA's GPU Operator, and in the affinity of the charts.
func (o Observed) excludesAgent(agent string) bool {
	const deploy = "nvidia.com/gpu.deploy."
	return o.Labels[deploy+agent] == "false" || o.Labels[deploy+"operands"] == "false"
}

// hasMode reports whether a GPU has a MIG mode.
func hasMode(g gpu.GPU) bool { return g.MIG != nil }

// The limits of a message and of the fix at its end, in bytes. The problem gets
// the rest.
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

// oneLine makes text of other programs safe to use in a message.
func oneLine(s string, limit int) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Printable(text.Cut(strings.Join(lines, "; "), limit))
}
