package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
	"outrigger.dev/pkg/text"
)

// maxMessage is the maximum length of a stored message, in bytes.
const maxMessage = 512

// gpuReady is the condition that feature discovery writes.
const gpuReady = "GPUReady"

// maxWord is the maximum length of a reason, in bytes.
const maxWord = 128

// shared returns a text that shares its memory with equal texts, because many nodes and pods have the same.
func shared(s string) string { return unique.Make(s).Value() }

// NodeOf returns the compact form of a Node.
func NodeOf(in *corev1.Node) *model.Node {
	n := &model.Node{Name: in.Name, Labels: make(map[string]string, len(in.Labels)), Since: in.CreationTimestamp.UTC()}
	for label, value := range in.Labels {
		n.Labels[shared(label)] = shared(value)
	}
	ready, since := false, n.Since
	for _, c := range in.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready, since = c.Status == corev1.ConditionTrue, c.LastTransitionTime.UTC()
		}
		if c.Type == gpuReady {
			n.GPUReady, n.Reason, n.Message = shared(string(c.Status)), shared(text.Cut(c.Reason, maxWord)), shared(text.Cut(c.Message, maxMessage))
			n.Since = c.LastTransitionTime.UTC()
		}
	}
	n.NotReady, n.Schedulable = !ready, ready && !in.Spec.Unschedulable
	if n.NotReady {
		n.Since = since
	}
	n.Allocatable, n.Capacity = resources(in.Status.Allocatable), resources(in.Status.Capacity)
	return n
}

// resources returns the resources nvidia.com/* of a list, or nil.
func resources(list corev1.ResourceList) map[string]int64 {
	var out map[string]int64
	for name, quantity := range list {
		if !strings.HasPrefix(string(name), "nvidia.com/") {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[shared(string(name))] = quantity.Value()
	}
	return out
}

// carryShort keeps the time since which a node offers fewer GPUs than it has.
func carryShort(before, now *model.Node) {
	if offered, capacity := now.GPUs(); offered >= capacity {
		return
	}
	now.ShortSince = before.ShortSince
	if offered, capacity := before.GPUs(); offered >= capacity {
		now.ShortSince = time.Now().UTC()
	}
}

// PodOf returns the compact form of a Pod. It returns nil for pods of a DaemonSet that have been ready for longer than
// model.RestartTime without a crash loop, and for pods without a DaemonSet that do not belong to a validation.
func PodOf(in *corev1.Pod) *model.Pod {
	validates := in.Labels[validation.LabelCheck]
	owner := metav1.GetControllerOf(in)
	ready := podCondition(in, corev1.PodReady)
	isReady := ready != nil && ready.Status == corev1.ConditionTrue && in.DeletionTimestamp == nil
	loop, lastWords := crashLoop(in)
	if validates == "" && (isReady && loop.IsZero() && time.Since(ready.LastTransitionTime.Time) > model.RestartTime || owner == nil || owner.Kind != "DaemonSet") {
		return nil
	}
	p := &model.Pod{
		Namespace: shared(in.Namespace), Name: in.Name, Node: shared(in.Spec.NodeName), Owner: shared(validates),
		Revision: shared(in.Labels[validation.LabelRevision]), Phase: shared(string(in.Status.Phase)), Since: in.CreationTimestamp.UTC(),
		Deleting: in.DeletionTimestamp != nil,
	}
	reason, message := PodReason(in)
	if validates == "" {
		p.Owner, p.Ready, p.Loops = shared(owner.Name), isReady, loop
		if ready != nil && ready.LastTransitionTime.After(p.Since) {
			p.Since = ready.LastTransitionTime.UTC()
		}
		if p.Deleting && in.DeletionTimestamp.After(p.Since) {
			p.Since = in.DeletionTimestamp.UTC()
		}
		if !loop.IsZero() {
			message = cmp.Or(lastWords, message)
		}
	}
	p.Reason, p.Message = shared(text.Cut(reason, maxWord)), shared(text.Cut(strings.TrimSpace(message), maxMessage))
	return p
}

func podCondition(p *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == of {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// PodReason returns why a pod is not ready: the reason and message of the scheduler or the
// kubelet, or the termination message of the agent.
func PodReason(p *corev1.Pod) (reason, message string) {
	if c := podCondition(p, corev1.PodScheduled); c != nil && c.Status != corev1.ConditionTrue {
		return c.Reason, c.Message
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		last := s.LastTerminationState.Terminated
		switch {
		case s.State.Terminated != nil && (s.State.Terminated.ExitCode != 0 || p.Status.Phase == corev1.PodSucceeded):
			return s.State.Terminated.Reason, s.State.Terminated.Message
		case s.State.Waiting != nil && last != nil:
			return s.State.Waiting.Reason, cmp.Or(last.Message, s.State.Waiting.Message)
		case s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing":
			return s.State.Waiting.Reason, s.State.Waiting.Message
		}
	}
	if p.Status.Reason != "" {
		return p.Status.Reason, p.Status.Message
	}
	if c := podCondition(p, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning {
		return "NotReady", c.Message
	}
	return "", p.Status.Message
}

const (
	// loopReset is how long a container has to run so that the kubelet forgets its crashes.
	loopReset = 10 * time.Minute
	// loopEnd is how long a container has to run again so that its crash loop has ended.
	loopEnd = 2 * time.Minute
)

// crashLoop returns the end of a pod's crash loop if no container crashes again, and the last message
// of the container. It returns zero if no container has ended twice soon after its start. While a
// container waits for its restart, the end is loopReset and loopEnd after its last crash.
func crashLoop(p *corev1.Pod) (end time.Time, lastWords string) {
	for _, s := range p.Status.ContainerStatuses {
		last := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		if s.RestartCount < 2 || last == nil || last.FinishedAt.Sub(last.StartedAt.Time) > loopReset {
			continue
		}
		from := last.FinishedAt.Add(loopReset)
		if s.State.Running != nil {
			from = s.State.Running.StartedAt.Time
		}
		if until := from.Add(loopEnd).UTC(); until.After(end) {
			end, lastWords = until, cmp.Or(last.Message, "the container "+s.Name+" ends again and again")
		}
	}
	return end, lastWords
}

// DaemonSetOf returns the compact form of a DaemonSet's status.
func DaemonSetOf(in *appsv1.DaemonSet) model.DaemonSet {
	return model.DaemonSet{
		Current: in.Status.ObservedGeneration >= in.Generation, Desired: int(in.Status.DesiredNumberScheduled),
		Updated: int(in.Status.UpdatedNumberScheduled), Ready: int(in.Status.NumberReady),
	}
}
