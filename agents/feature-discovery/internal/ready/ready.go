package ready

import (
	"strings"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/text"
)

// Observed is what is known of the node. The times in its errors must not run
// on: they would make each look news.
type Observed struct {
	// Node is what NVML showed in the last look that succeeded, nil before the
	// first one.
	Node *gpu.Node
	// Err is why the last look did not succeed. While another agent has claimed
	// NVML, or the source was just closed, nobody answered: then Node still
	// holds. Any other error is the driver's own answer, and breaks the link,
	// whatever Node is.
	Err error
	// Hang is set while the driver hangs.
	Hang error
	// Facts are those of the node contract. One that is missing here has not been
	// read yet.
	Facts map[contract.Name]contract.Fact
}

// finding is why a link does not hold; without a reason, it does.
type finding struct {
	status, reason string
	// what is wrong, and the evidence.
	what string
	// fix is what helps, empty where what tells that too.
	fix string
}

// Derive returns the condition of a node with this chain, which is not empty: in
// the words of the first link that does not hold. LastTransition is left to who
// publishes it. The message is one line of less than 1 KiB and stays the same as
// long as what it tells does.
func Derive(chain []Link, o Observed) kube.Condition {
	for _, l := range chain {
		if f := o.check(l); f.reason != "" {
			return condition(f.status, f.reason, f.what, f.fix)
		}
	}
	return condition(True, GPUsReady, o.summary(chain), "")
}

// check returns why a link does not hold.
func (o Observed) check(l Link) finding {
	if l == Driver {
		return o.driver()
	}
	return o.fact(partOf(l))
}

// The bounds of a message and of the fix at its end, in bytes. What is wrong has
// the rest.
const (
	maxMessage = 1000
	maxFix     = 300
)

func condition(status, reason, what, fix string) kube.Condition {
	if fix != "" {
		fix = "; " + oneLine(fix, maxFix)
	}
	return kube.Condition{Type: Condition, Status: status, Reason: reason, Message: oneLine(what, maxMessage-len(fix)) + fix}
}

// oneLine returns what others wrote as a part of a message.
func oneLine(s string, most int) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Printable(text.Cut(strings.Join(lines, "; "), most))
}
