package observe

import (
	"cmp"
	"slices"
	"strings"

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

// isRelevantLabel reports whether a pass reads the label.
func isRelevantLabel(label string) bool {
	for _, prefix := range []string{"nvidia.com/", "feature.node.kubernetes.io/pci-", "outrigger.dev/"} {
		if strings.HasPrefix(label, prefix) {
			return true
		}
	}
	return false
}

// interned stores texts that many nodes and pods share once. It is cleared when it becomes large,
// because the number of texts is not bounded.
type interned map[string]string

const (
	maxInterned = 20_000
	// maxWord is the maximum length of a reason, in bytes.
	maxWord = 128
)

func (i interned) intern(s string) string {
	if known, ok := i[s]; ok {
		return known
	}
	if len(i) >= maxInterned {
		clear(i)
	}
	s = strings.Clone(s)
	i[s] = s
	return s
}

// node returns the compact form of a Node. It returns false if the Node has no relevant label.
func (o *Observer) node(object metav1.Object) (model.Node, bool) {
	in, ok := object.(*corev1.Node)
	if !ok {
		return model.Node{}, false
	}
	o.texts.Lock()
	defer o.texts.Unlock()
	n := model.Node{Name: strings.Clone(in.Name), Since: in.CreationTimestamp.UTC()}
	for label, value := range in.Labels {
		if !isRelevantLabel(label) && !slices.Contains(o.labels, label) {
			continue
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[o.interned.intern(label)] = o.interned.intern(value)
	}
	if n.Labels == nil {
		return n, false
	}
	ready := false
	for _, c := range in.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c.Status == corev1.ConditionTrue
		}
		if c.Type == gpuReady {
			n.GPUReady, n.Reason, n.Message = o.interned.intern(string(c.Status)), o.interned.intern(text.Cut(c.Reason, maxWord)), o.interned.intern(text.Cut(c.Message, maxMessage))
			n.Since = c.LastTransitionTime.UTC()
		}
	}
	n.NotReady, n.Schedulable = !ready, ready && !in.Spec.Unschedulable
	for name, quantity := range in.Status.Allocatable {
		if !strings.HasPrefix(string(name), "nvidia.com/") {
			continue
		}
		if n.Allocatable == nil {
			n.Allocatable = map[string]int64{}
		}
		n.Allocatable[o.interned.intern(string(name))] = quantity.Value()
	}
	return n, true
}

// pod returns the compact form of a Pod. It returns false for ready pods of a DaemonSet, and for
// pods without a DaemonSet that do not belong to a validation.
func (o *Observer) pod(object metav1.Object) (model.Pod, bool) {
	in, ok := object.(*corev1.Pod)
	if !ok {
		return model.Pod{}, false
	}
	validates := in.Labels[validation.LabelCheck]
	owner := metav1.GetControllerOf(in)
	ready := podCondition(in, corev1.PodReady)
	isReady := ready != nil && ready.Status == corev1.ConditionTrue && in.DeletionTimestamp == nil
	if validates == "" && (isReady || owner == nil || owner.Kind != "DaemonSet") {
		return model.Pod{}, false
	}
	o.texts.Lock()
	defer o.texts.Unlock()
	p := model.Pod{
		Namespace: o.interned.intern(in.Namespace), Name: strings.Clone(in.Name), Node: o.interned.intern(in.Spec.NodeName), Owner: o.interned.intern(validates),
		Revision: o.interned.intern(in.Labels[validation.LabelRevision]), Phase: o.interned.intern(string(in.Status.Phase)), Since: in.CreationTimestamp.UTC(),
		Deleting: in.DeletionTimestamp != nil,
	}
	if validates == "" {
		p.Owner = o.interned.intern(owner.Name)
		if ready != nil && ready.LastTransitionTime.After(p.Since) {
			p.Since = ready.LastTransitionTime.UTC()
		}
	}
	reason, message := notReadyReason(in)
	p.Reason, p.Message = o.interned.intern(text.Cut(reason, maxWord)), text.Cut(strings.TrimSpace(message), maxMessage)
	if len(p.Message) > maxWord {
		p.Message = strings.Clone(p.Message) // a long message names the pod, so no other pod has the same
	} else {
		p.Message = o.interned.intern(p.Message)
	}
	return p, true
}

func podCondition(p *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == of {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// notReadyReason returns why a pod is not ready: the reason and message of the scheduler or the
// kubelet, or the termination message of the agent.
func notReadyReason(p *corev1.Pod) (reason, message string) {
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

// newDaemonSet returns the compact form of a DaemonSet's status.
func newDaemonSet(in *appsv1.DaemonSet) model.DaemonSet {
	return model.DaemonSet{
		Current: in.Status.ObservedGeneration >= in.Generation, Desired: int(in.Status.DesiredNumberScheduled),
		Updated: int(in.Status.UpdatedNumberScheduled), Ready: int(in.Status.NumberReady),
	}
}
