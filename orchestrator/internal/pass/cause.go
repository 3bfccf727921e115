package pass

import (
	"cmp"
	"strings"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// patience is how long a pod or a node may wait before it counts as failed. It leaves time to pull
// an image of several GB, or to build and load a driver.
const patience = 10 * time.Minute

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

// podCause returns why a pod of a DaemonSet is not ready. The pod of an agent that runs and waits
// has no reason in the API. The cause is then in the node's GPUReady.
func (x *index) podCause(p *model.Pod) trouble {
	node := cmp.Or(x.nodes[p.Node], &model.Node{Name: p.Node})
	var t trouble
	if code := canonicalCode(p.Reason); code.Row().Section == "pod" && code.Row().Severity == cause.Fails {
		t = newTrouble(code, "", withoutBackOff(p.Message), p.Since)
	} else {
		t = x.otherCause(p, node)
	}
	if node.NotReady && t.severity != cause.Fails {
		return nodeDown(node, p.Since)
	}
	t.Fix = strings.NewReplacer("NAMESPACE", p.Namespace, "POD", p.Name).Replace(t.Fix)
	return t
}

// otherCause returns the cause for a pod that the kubelet does not report as failed.
func (x *index) otherCause(p *model.Pod, node *model.Node) trouble {
	switch {
	case p.Deleting:
		return newTrouble(cause.Terminating, "", "the pod is being deleted", p.Since)
	case p.Phase == "Failed":
		return newTrouble(cause.PodFailed, p.Reason, withoutBackOff(p.Message), p.Since)
	case p.Phase != "Running":
		return newTrouble(cause.ContainerCreating, p.Reason, cmp.Or(p.Message, "the containers have not started"), p.Since)
	case node.GPUReady != "" && node.GPUReady != "True" && node.Reason != "":
		x.explained[node.Name] = true
		t := nodeCause(node)
		t.since = p.Since
		return t
	default:
		return newTrouble(cause.NotReady, "", cmp.Or(p.Message, "the agent runs and is not ready"), p.Since)
	}
}

// nodeCause returns why the GPUs of a node cannot be used, according to the condition GPUReady.
func nodeCause(n *model.Node) trouble {
	code := cause.Code(n.Reason)
	if code.Row().Section != "node" && code != cause.NoGPU {
		code = cause.PluginNotReady // an agent of another version wrote the reason: its log has details
	}
	t := newTrouble(code, n.Reason, n.Message, n.Since)
	t.Fix = strings.ReplaceAll(t.Fix, "NODE", n.Name)
	return t
}

// nodeDown returns the cause for all pods on a node that is not Ready.
func nodeDown(n *model.Node, since time.Time) trouble {
	t := newTrouble(cause.NodeNotReady, "", "the node itself is not Ready", since)
	t.Fix = strings.ReplaceAll(t.Fix, "NODE", n.Name)
	return t
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

// singleLine prepares text from the cluster for a status: one printable line with at most that many
// bytes.
func singleLine(s string, most int) string {
	return text.Cut(text.Printable(strings.Join(strings.Fields(s), " ")), most)
}

// The limits of texts in a status, in bytes.
const (
	maxMessage = 1000
	maxText    = 500
)
