package health

import (
	"cmp"
	"strings"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// trouble is a cause that keeps a pod or a node from being ready. Its code may be a reason of the
// kubelet or the scheduler that is not in the table of causes.
type trouble struct {
	cause.Cause
	severity cause.Severity
	since    time.Time
}

// newTrouble returns a trouble with the severity and the fix of code's row in the table. Its code
// is word, the reason of the kubelet, if there is one.
func newTrouble(code cause.Code, word, message string, since time.Time) trouble {
	row := code.Row()
	return trouble{
		Cause:    cause.Cause{Code: cmp.Or(cause.Code(word), code), Text: message, Fix: row.Fix},
		severity: row.Severity, since: since,
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
func (v *View) podTrouble(p *model.Pod) (t trouble, failed bool) {
	code, loops := canonicalCode(p.Reason), !p.Loops.IsZero() && !v.past(p.Loops, 0)
	if loops {
		code = cause.CrashLoopBackOff
	}
	node := cmp.Or(v.nodes[p.Node], &model.Node{Name: p.Node})
	switch {
	case p.Deleting:
		t = newTrouble(cause.Terminating, "", "the pod is being deleted", p.Since)
	case code.Row().Section == "pod" && code.Row().Severity == cause.Fails:
		t = newTrouble(code, "", withoutBackOff(p.Message), p.Since)
	case p.Phase == "Failed":
		t = newTrouble(cause.PodFailed, p.Reason, withoutBackOff(p.Message), p.Since)
	case node.NotReady, p.Phase == "Running" && node.GPUReady != "" && node.GPUReady != "True":
		return trouble{}, v.failed[p.Node]
	case p.Phase != "Running":
		t = newTrouble(cause.ContainerCreating, p.Reason, cmp.Or(p.Message, "the containers have not started"), p.Since)
	default:
		t = newTrouble(cause.NotReady, "", cmp.Or(p.Message, "the agent runs and is not ready"), p.Since)
	}
	if failed = loops || v.lasted(t, false); !failed {
		return trouble{}, false
	}
	t.Fix = strings.NewReplacer("NAMESPACE", p.Namespace, "POD", p.Name).Replace(t.Fix)
	return t, true
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

// SingleLine prepares text from the cluster for a status: one printable line with at most that many
// bytes.
func SingleLine(s string, most int) string {
	return text.Cut(text.Printable(strings.Join(strings.Fields(s), " ")), most)
}

// MaxMessage is the limit of a message in a status, and maxText of the texts of a problem, in bytes.
const (
	MaxMessage = 1000
	maxText    = 500
)
