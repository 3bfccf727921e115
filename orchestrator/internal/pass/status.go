package pass

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
)

// status returns the new status of the policy.
func (w *walk) status() model.Status {
	old := w.state.Policy.Status
	now := model.Status{ObservedGeneration: w.state.Policy.Generation, Inventory: w.prune()}
	settled, missing := true, 0
	for _, r := range w.results {
		missing += r.missing
		settled = settled && opens(r.State)
		now.Stages = append(now.Stages, r.StageStatus)
	}
	if w.state.Policy.Refused != "" {
		now.Stages = old.Stages // the objects that were applied before stay
	}
	conditioned := false
	now.GPUNodes = w.index.gpus
	for _, n := range w.state.Nodes {
		if !n.HasGPU() {
			continue
		}
		conditioned = conditioned || n.GPUReady != ""
		if usable(n) {
			now.ReadyNodes++
		}
	}
	failed := w.addNodes(settled, missing > 0) + w.addOverlaps()
	now.Problems = w.index.sorted()
	ready, degraded := w.ready(&now, conditioned), w.degraded(&now, failed)
	now.State = model.StateNotReady
	if ready.Status == metav1.ConditionTrue {
		now.State = model.StateReady
		if degraded.Status == metav1.ConditionTrue {
			ready.Message = singleLine(ready.Message+"; "+degraded.Message, maxMessage)
		}
	}
	now.Conditions = slices.Clone(old.Conditions)
	setConditions(&now, w.state.Now, ready, degraded)
	return now
}

// condition returns a condition without observedGeneration and lastTransitionTime.
func condition(name string, is metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: is, Reason: reason, Message: singleLine(message, maxMessage)}
}

// setConditions sets conditions of a status, and the time of each condition that changed.
func setConditions(s *model.Status, now time.Time, conditions ...metav1.Condition) {
	for _, c := range conditions {
		c.ObservedGeneration, c.LastTransitionTime = s.ObservedGeneration, metav1.NewTime(now.UTC().Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, c)
	}
}

// usable reports whether the GPUs of a node can be used, according to its condition GPUReady. If
// the node does not have the condition, because feature discovery does not run, one allocatable GPU
// is enough.
func usable(n *model.Node) bool {
	if n.NotReady {
		return false
	}
	if n.GPUReady != "" {
		return n.GPUReady == "True"
	}
	for _, count := range n.Allocatable {
		if count > 0 {
			return true
		}
	}
	return false
}

// ready returns the condition Ready. A cluster without GPU nodes is not ready.
func (w *walk) ready(now *model.Status, conditioned bool) metav1.Condition {
	not := func(reason, message string) metav1.Condition {
		return condition(model.ConditionReady, metav1.ConditionFalse, reason, message)
	}
	if p := w.state.Policy; p.Refused != "" {
		return not(model.ReasonValuesRefused, p.Refused)
	} else if p.Deleting {
		return not(model.ReasonDeleting, w.remaining())
	}
	rollsOut := ""
	for _, r := range w.results {
		if !opens(r.State) {
			return not(r.reason, stageMessage(r))
		}
		if r.State == model.RollingOut && rollsOut == "" {
			rollsOut = fmt.Sprintf("; stage %s: %s", r.Name, r.works)
		}
	}
	switch {
	case now.GPUNodes == 0:
		return not(w.noNodes())
	case now.ReadyNodes == 0 && conditioned:
		return not(model.ReasonNodesNotReady, fmt.Sprintf("0 of %s ready%s", gpuNodes(now.GPUNodes), worstSuffix(now.Problems)))
	}
	return condition(model.ConditionReady, metav1.ConditionTrue, model.ReasonReconciled,
		fmt.Sprintf("%d of %s ready%s", now.ReadyNodes, gpuNodes(now.GPUNodes), rollsOut))
}

// noNodes returns the reason and the message of a cluster without GPU nodes.
func (w *walk) noNodes() (reason, message string) {
	for i, r := range w.results {
		if w.stages[i].Chart() == "feature-discovery" && r.Desired > 0 {
			return model.ReasonNoGPUNodes, fmt.Sprintf("no GPU node found: feature discovery looked at %d nodes; check that it runs on the nodes with GPUs "+
				"(nodeSelector, tolerations and affinity of presence), and that they show one (lspci -d 10de:)", r.Ready)
		}
	}
	return model.ReasonLabelsMissing, "no node has the label nvidia.com/gpu.present=true or feature.node.kubernetes.io/pci-10de.present=true, and nothing " +
		"looks for GPUs: enable feature discovery with presence, or install Node Feature Discovery"
}

// degraded returns the condition Degraded.
func (w *walk) degraded(now *model.Status, failed int) metav1.Condition {
	for _, r := range w.results {
		if r.State == model.Failed {
			return condition(model.ConditionDegraded, metav1.ConditionTrue, model.ReasonStageFailed, stageMessage(r))
		}
		failed += r.Failed
		for _, v := range r.Validations {
			failed += v.Failed
		}
	}
	switch {
	case w.state.Policy.Refused != "":
		return condition(model.ConditionDegraded, metav1.ConditionTrue, model.ReasonStageFailed, w.state.Policy.Refused)
	case failed > 0:
		return condition(model.ConditionDegraded, metav1.ConditionTrue, model.ReasonNodesFailed, w.failures(now))
	default:
		return condition(model.ConditionDegraded, metav1.ConditionFalse, model.ReasonNoFailure, "no stage and no node has failed")
	}
}

// failures returns the worst problems, and the validations that failed on some nodes, as text.
func (w *walk) failures(now *model.Status) string {
	var parts []string
	for _, p := range now.Problems[:min(len(now.Problems), maxNamed)] {
		parts = append(parts, stageSummary(p))
	}
	if more := len(w.index.problems) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more causes", more))
	}
	for _, r := range w.results {
		for _, v := range r.Validations {
			if v.Failed > 0 {
				parts = append(parts, fmt.Sprintf("%s failed on %s: %s", v.Name, gpuNodes(v.Failed), v.Message))
			}
		}
	}
	return strings.Join(parts, "; ")
}

// remaining returns the objects that the deletion of the policy waits for, as text.
func (w *walk) remaining() string {
	if len(w.plan.Left) == 0 {
		return "everything is deleted"
	}
	return fmt.Sprintf("deleting %d objects: %s", len(w.plan.Left), abbreviate(w.plan.Left, len(w.plan.Left)))
}

// stageMessage returns the state of a stage that is not ready, as text.
func stageMessage(r result) string {
	if r.State == model.Failed {
		return fmt.Sprintf("stage %s failed: %s", r.Name, r.Message)
	}
	return fmt.Sprintf("stage %s: %s", r.Name, r.Message)
}

// worstSuffix returns the first problem as the end of a sentence.
func worstSuffix(problems []model.Problem) string {
	if len(problems) == 0 {
		return ""
	}
	return ": " + sentence(problems[0])
}

// stageSummary returns the summary of a problem with its stage.
func stageSummary(p model.Problem) string {
	if p.Stage == "" {
		return summary(p)
	}
	return p.Stage + ": " + summary(p)
}

func gpuNodes(n int) string {
	if n == 1 {
		return "1 GPU node"
	}
	return fmt.Sprintf("%d GPU nodes", n)
}

// Ignored returns the status of a policy that is not in effect, because the policy with the name
// older is older.
func Ignored(p model.Policy, older string, now time.Time) model.Status {
	s := model.Status{State: model.StateIgnored, ObservedGeneration: p.Generation, Conditions: slices.Clone(p.Status.Conditions)}
	setConditions(&s, now, condition(model.ConditionReady, metav1.ConditionFalse, model.ReasonIgnored,
		fmt.Sprintf("the ClusterPolicy %s is older and in effect; a cluster has one: delete this one or that one", older)))
	return s
}
