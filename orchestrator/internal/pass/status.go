package pass

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
)

// status returns the new status of the policy.
func (w *walk) status() model.Status {
	old := w.state.Policy.Status
	now := model.Status{ObservedGeneration: w.state.Policy.Generation, Inventory: w.prune()}
	for _, r := range w.results {
		now.Stages = append(now.Stages, r.StageStatus)
	}
	if w.state.Policy.Refused != "" {
		now.Stages = old.Stages // the objects that were applied before stay
	}
	now.GPUNodes, now.ReadyNodes = w.health.Nodes.GPU, w.health.Nodes.Ready
	w.addOverlaps()
	var causes int
	now.Problems, causes = w.health.Problems()
	degraded, progressing := w.degraded(&now, causes), w.progressing()
	ready := w.ready(&now, degraded, progressing)
	now.State = model.StateNotReady
	if ready.Status == metav1.ConditionTrue {
		now.State = model.StateReady
	}
	now.Conditions = slices.Clone(old.Conditions)
	setConditions(&now, w.state.Now, ready, progressing, degraded)
	return now
}

// condition returns a condition without observedGeneration and lastTransitionTime.
func condition(name string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: health.SingleLine(message, health.MaxMessage)}
}

// setConditions sets conditions of a status, and the time of each condition that changed.
func setConditions(s *model.Status, now time.Time, conditions ...metav1.Condition) {
	for _, c := range conditions {
		c.ObservedGeneration, c.LastTransitionTime = s.ObservedGeneration, metav1.NewTime(now.UTC().Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, c)
	}
}

// ready returns the condition Ready: whether the values are accepted, and the GPUs of a node can be
// used. The message also has the worst failure, or the progress.
func (w *walk) ready(now *model.Status, degraded, progressing metav1.Condition) metav1.Condition {
	not := func(reason, message string) metav1.Condition {
		return condition(model.ConditionReady, false, reason, message)
	}
	if p := w.state.Policy; p.Refused != "" {
		return not(model.ReasonValuesRefused, p.Refused)
	} else if p.Deleting {
		return not(model.ReasonDeleting, w.remaining())
	}
	why := ""
	switch {
	case degraded.Status == metav1.ConditionTrue:
		why = degraded.Message
	case now.ReadyNodes == 0 && len(now.Problems) > 0:
		why = health.Sentence(now.Problems[0])
	case progressing.Status == metav1.ConditionTrue:
		why = progressing.Message
	}
	message := w.health.Nodes.String()
	switch {
	case why == "" && now.GPUNodes == 0 && w.health.Nodes.OptedOut == 0:
		return not(w.noNodes())
	case why != "":
		message += "; " + why
	}
	if now.ReadyNodes == 0 {
		return not(model.ReasonNodesNotReady, message)
	}
	return condition(model.ConditionReady, true, model.ReasonReconciled, message)
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

// progressing returns the condition Progressing: whether the values are not applied on all nodes yet.
func (w *walk) progressing() metav1.Condition {
	switch p := w.state.Policy; {
	case p.Refused != "":
		return condition(model.ConditionProgressing, false, model.ReasonValuesRefused, "the rejected values are not applied")
	case p.Deleting:
		return condition(model.ConditionProgressing, true, model.ReasonDeleting, w.remaining())
	}
	for _, r := range w.results {
		if r.moves {
			return condition(model.ConditionProgressing, true, model.ReasonRollingOut, r.sentence())
		}
	}
	return condition(model.ConditionProgressing, false, model.ReasonApplied, "all stages are applied on all nodes")
}

// degraded returns the condition Degraded: which stages and nodes have failed. causes is the number
// of problems.
func (w *walk) degraded(now *model.Status, causes int) metav1.Condition {
	yes := func(reason, message string) metav1.Condition {
		return condition(model.ConditionDegraded, true, reason, message)
	}
	if w.state.Policy.Refused != "" {
		return yes(model.ReasonValuesRefused, w.state.Policy.Refused)
	}
	// During a deletion, the agents stop, so that nodes no longer offer GPUs.
	failed, fails := w.health.Nodes.Failed > 0 && !w.state.Policy.Deleting, ""
	for _, r := range w.results {
		switch {
		case r.rejected:
			return yes(model.ReasonReconcileFailed, r.sentence())
		case r.Broken && r.State == model.Failed:
			return yes(model.ReasonStageFailed, r.sentence())
		}
		failed = failed || model.Broken(r.State)
		for _, v := range r.Validations {
			failed = failed || v.Failed > 0
		}
		if r.fails != "" && fails == "" {
			fails = r.sentence()
		}
	}
	switch {
	case fails != "":
		return yes(model.ReasonValidationFailed, fails)
	case failed:
		return yes(model.ReasonNodesFailed, w.failures(now, causes))
	}
	return condition(model.ConditionDegraded, false, model.ReasonNoFailure, "no stage and no node has failed")
}

// failures returns the worst problems, and the validations that failed on some nodes, as text.
func (w *walk) failures(now *model.Status, causes int) string {
	var parts []string
	for _, p := range now.Problems[:min(len(now.Problems), health.MaxNamed)] {
		part := health.Summary(p)
		if p.Stage != "" {
			part = p.Stage + ": " + part
		}
		parts = append(parts, part)
	}
	if more := causes - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more causes", more))
	}
	for _, r := range w.results {
		for _, v := range r.Validations {
			if v.Failed > 0 {
				parts = append(parts, fmt.Sprintf("%s failed on %s: %s", v.Name, health.Count(v.Failed), v.Message))
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
	return fmt.Sprintf("deleting %d objects: %s", len(w.plan.Left), health.Abbreviate(w.plan.Left, len(w.plan.Left)))
}

// Ignored returns the status of a policy that is not in effect. The parameter older is the name of
// the policy in effect.
func Ignored(p model.Policy, older string, now time.Time) model.Status {
	s := model.Status{State: model.StateIgnored, ObservedGeneration: p.Generation, Conditions: slices.Clone(p.Status.Conditions)}
	setConditions(&s, now, condition(model.ConditionReady, false, model.ReasonIgnored,
		fmt.Sprintf("the ClusterPolicy %s is older and in effect; a cluster has one: delete this one or that one", older)))
	return s
}
