package validation

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/text"
)

const (
	// settleTime is how long the scheduler may find no GPU before a check is skipped. The kubelet
	// offers GPUs some seconds after the device plugin has registered them.
	settleTime = 30 * time.Second
	// maxText is the maximum length of a pod's message, in bytes.
	maxText = 400
)

// judged is a pod of this run with its state.
type judged struct {
	*model.Pod
	state string
	// text is the reason for the state.
	text string
}

// judge adds a pod of this run with its state. It removes a pod whose node no longer exists.
func (r *run) judge(p *model.Pod) {
	node, known := r.known[p.Node]
	age := r.s.Now.Sub(p.Since)
	j := judged{Pod: p, state: Running}
	switch {
	case p.Deleting:
	case p.Node != "" && !known:
		r.delete(p)
		return
	case p.Phase == string(corev1.PodSucceeded):
		j.state = Passed
	case p.Phase == string(corev1.PodFailed) && disrupted(p.Reason):
		j.state, j.text = Skipped, r.nodePrefix(p)+podMessage(p)
	case p.Phase == string(corev1.PodFailed):
		j.state, j.text = Failed, r.nodePrefix(p)+podMessage(p)+r.fix(p)
	case r.inUse(p) && age >= settleTime:
		j.state, j.text = Skipped, fmt.Sprintf("%sno free %s: pods use all of them; the validation is repeated every %s", r.nodePrefix(p), r.resource, retryAfter)
	case age >= r.c.Timeout && p.Node != "" && !node.Schedulable:
		r.delete(p)
		return
	case age >= r.c.Timeout:
		j.state = Failed
		j.text = fmt.Sprintf("%spod %s has not ended after %s%s%s", r.nodePrefix(p), p.Name, r.c.Timeout, reasonSuffix(p), r.fix(p))
	default:
		j.text = r.nodePrefix(p) + podMessage(p)
		if r.inUse(p) {
			r.lookAfter(settleTime - age)
		}
		r.lookAfter(r.c.Timeout - age)
	}
	r.pods = append(r.pods, j)
	r.n[j.state]++
}

// disrupted reports whether a pod has failed for a reason that does not concern the GPUs.
func disrupted(reason string) bool {
	switch reason {
	case "Evicted", "Preempting", "NodeShutdown", "Shutdown", "Terminated", "NodeLost", "NodeAffinity":
		return true
	default:
		return strings.HasPrefix(reason, "OutOf")
	}
}

// inUse reports whether a pod waits for a device because all devices of its nodes are in use.
func (r *run) inUse(p *model.Pod) bool {
	if r.resource == "" || p.Reason != "Unschedulable" || !strings.Contains(p.Message, "Insufficient "+r.resource) {
		return false
	}
	for _, n := range r.nodes {
		if (r.c.Nodes == oneNode || r.podName(n.Name) == p.Name) && n.Allocatable[r.resource] > 0 {
			return true
		}
	}
	return false
}

// nodePrefix returns the node of a pod as the beginning of a message, or "" if the node is not
// known.
func (r *run) nodePrefix(p *model.Pod) string {
	if p.Node != "" {
		return "node " + p.Node + ": "
	}
	for _, n := range r.nodes {
		if r.c.Nodes != oneNode && r.podName(n.Name) == p.Name {
			return "node " + n.Name + ": "
		}
	}
	return ""
}

// podMessage returns the reason and the last line of the message of a pod.
func podMessage(p *model.Pod) string {
	lines := strings.Split(strings.TrimSpace(p.Message), "\n")
	line := text.Cut(strings.TrimSpace(lines[len(lines)-1]), maxText)
	switch {
	case line == "" && p.Reason == "":
		return "pod " + p.Name + " is " + p.Phase
	case line == "":
		return p.Reason
	case p.Reason == "" || p.Reason == "Error":
		return line
	default:
		return p.Reason + ": " + line
	}
}

// reasonSuffix returns the reason why a pod has not ended, in parentheses, or "".
func reasonSuffix(p *model.Pod) string {
	if p.Reason == "" && p.Message == "" {
		return ""
	}
	return " (" + podMessage(p) + ")"
}

// fix returns the fix for a failed pod as the end of a message. It returns "" for messages of
// vectoradd, which already have a fix.
func (r *run) fix(p *model.Pod) string {
	switch p.Reason {
	case "Error":
		if p.Message != "" {
			return ""
		}
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return ": check image and imagePullSecrets of the chart validator"
	case "CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun":
		return ": see the log of the container toolkit on this node"
	case "Unschedulable":
		if r.resource != "" && strings.Contains(p.Message, "Insufficient "+r.resource) {
			return ": no ready node offers " + r.resource + ": see the log of the device plugin, or set plugin.resource of the chart validator"
		}
		return ": check tolerations and nodeSelector of the chart validator"
	}
	return fmt.Sprintf(": kubectl -n %s describe pod %s shows the cause", p.Namespace, p.Name)
}
