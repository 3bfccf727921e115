package revalidate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/validation"
)

// Result has the results of all validations so far.
type Result struct {
	Policy      string       `json:"policy"`
	Validations []Validation `json:"validations"`
}

// Validation is the result of one validation.
type Validation struct {
	Stage string `json:"stage"`
	model.ValidationStatus
	// Pods are the pods of the repetition, by node.
	Pods []Pod `json:"pods"`
}

// Pod is the part of a validation on one node.
type Pod struct {
	// Node is empty while the pod is not scheduled.
	Node      string `json:"node,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is a state of package validation.
	State string `json:"state"`
	// Message says why the pod has not passed.
	Message string `json:"message,omitempty"`
	// GPUs is the number of GPUs that the pod has tried, and Copies are the lines with the rates of copies. Both are
	// empty without the log of the pod.
	GPUs   int      `json:"gpus,omitempty"`
	Copies []string `json:"copies,omitempty"`
}

// derive returns the results of the repetition so far, and whether it has ended. before has the revisions of the results
// from before the repetition.
func derive(policy model.Policy, pods []corev1.Pod, before map[string]string) (result Result, ended bool) {
	result, ended = Result{Policy: policy.Name}, true
	for _, s := range policy.Status.Stages {
		for _, v := range s.Validations {
			now := Validation{Stage: s.Name, ValidationStatus: v}
			if v.State == validation.Running || v.Revision == "" || v.Revision == before[v.Name] {
				ended, now.State = false, validation.Running
			}
			for i := range pods {
				if p := &pods[i]; p.Labels[validation.LabelCheck] == v.Name && p.Labels[validation.LabelRevision] != before[v.Name] {
					now.Pods = append(now.Pods, podOf(p))
				}
			}
			slices.SortFunc(now.Pods, func(a, b Pod) int { return strings.Compare(a.Node+" "+a.Name, b.Node+" "+b.Name) })
			result.Validations = append(result.Validations, now)
		}
	}
	return result, ended
}

func podOf(in *corev1.Pod) Pod {
	p := Pod{Node: in.Spec.NodeName, Namespace: in.Namespace, Name: in.Name, State: validation.Running}
	switch in.Status.Phase { //nolint:exhaustive // the pod runs in all other phases
	case corev1.PodSucceeded:
		p.State = validation.Passed
		return p
	case corev1.PodFailed:
		p.State = validation.Failed
	}
	if seen := observe.PodOf(in); seen != nil {
		p.Message = strings.TrimPrefix(seen.Reason+": "+seen.Message, ": ")
		p.Message = strings.TrimSuffix(p.Message, ": ")
	}
	return p
}

// Failed returns the number of pods and validations that have failed.
func (r Result) Failed() (n int) {
	for _, v := range r.Validations {
		n += v.ValidationStatus.Failed
		if v.State == validation.Failed && v.ValidationStatus.Failed == 0 {
			n++
		}
	}
	return n
}

// Skipped returns the number of nodes that could not be tried.
func (r Result) Skipped() (n int) {
	for _, v := range r.Validations {
		n += v.Skipped
	}
	return n
}

// maxLine is the maximum size of a line about copies, in bytes.
const maxLine = 200

// readLog returns the number of GPUs that a log of vectoradd names, and its lines about copies.
func readLog(log string) (gpus int, copies []string) {
	sums, rates, _ := strings.Cut(log, "[Copies ")
	for line := range strings.Lines(rates) {
		if strings.HasPrefix(line, "GPU ") {
			copies = append(copies, health.SingleLine(line, maxLine))
		}
	}
	return strings.Count(sums, "Test PASSED"), copies
}
