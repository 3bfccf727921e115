package pass

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
)

// events adds an Event to the plan for each incident that has begun since the published status: of a
// stage, of nodes, of a validation, or else of the policy. Stages whose objects the API server rejects
// are one incident. One Event reports that all incidents have ended.
func (w *walk) events() {
	old, now := w.state.Policy.Status, w.plan.Status
	incidents := 0
	rejected := isRejected(old.Conditions)
	for _, r := range w.results {
		last := w.last[r.Name]
		begins := r.Broken && !model.Broken(last.State)
		switch {
		case begins && r.rejected && rejected:
			incidents++
		case begins:
			rejected = rejected || r.rejected
			reason := "Degraded"
			if r.State == model.Failed {
				reason = "StageFailed"
			}
			incidents++
			w.addEvent(true, reason, r.sentence())
		}
		for _, v := range r.Validations {
			w.addValidationEvent(v, last.Validations)
		}
	}
	wasDegraded := meta.IsStatusConditionTrue(old.Conditions, model.ConditionDegraded)
	if at := slices.IndexFunc(now.Problems, inNodes); at >= 0 && w.health.Nodes.Failed > 0 && !w.state.Policy.Deleting && !(wasDegraded && knowsNodes(old)) {
		incidents++
		w.addEvent(true, "Degraded", w.health.Nodes.String()+"; "+health.Sentence(now.Problems[at]))
	}
	degraded := meta.FindStatusCondition(now.Conditions, model.ConditionDegraded)
	recovered := wasDegraded && degraded.Status == metav1.ConditionFalse && !w.state.Policy.Deleting
	if recovered {
		w.addEvent(false, "Recovered", degraded.Message)
	}
	if incidents == 0 {
		w.addReadyEvent(old, recovered)
	}
}

// isRejected reports whether the API server rejects an object.
func isRejected(conditions []metav1.Condition) bool {
	degraded := meta.FindStatusCondition(conditions, model.ConditionDegraded)
	return degraded != nil && degraded.Reason == model.ReasonReconcileFailed
}

// inNodes reports whether a cause is in nodes, and not in the pods of a stage.
func inNodes(p model.Problem) bool { return p.Stage == "" }

// knowsNodes reports whether a status has a cause in nodes. A full list may have dropped it.
func knowsNodes(s model.Status) bool {
	return len(s.Problems) == health.MaxProblems || slices.ContainsFunc(s.Problems, inNodes)
}

// addReadyEvent adds an Event if the condition Ready has changed, and no other Event says so.
func (w *walk) addReadyEvent(old model.Status, recovered bool) {
	ready := meta.FindStatusCondition(w.plan.Status.Conditions, model.ConditionReady)
	was := meta.FindStatusCondition(old.Conditions, model.ConditionReady)
	isTrue, wasTrue := ready.Status == metav1.ConditionTrue, was != nil && was.Status == metav1.ConditionTrue
	switch {
	case isTrue && (wasTrue || recovered):
	case isTrue:
		w.addEvent(false, "Ready", ready.Message)
	case was != nil && was.Reason == ready.Reason:
	case ready.Reason == model.ReasonDeleting:
		w.addEvent(false, ready.Reason, ready.Message)
	case ready.Reason == model.ReasonNodesNotReady && (!wasTrue || w.health.Nodes.GPU == 0 || w.health.Nodes.Restarting > 0):
		// This is no incident: the agents start, or all nodes are opted out.
	default:
		w.addEvent(true, ready.Reason, ready.Message)
	}
}

func (w *walk) addEvent(warning bool, reason, message string) {
	w.plan.Events = append(w.plan.Events, model.Event{Warning: warning, Reason: reason, Message: health.SingleLine(message, health.MaxMessage)})
}

// addValidationEvent adds an Event if a validation has ended.
func (w *walk) addValidationEvent(v model.ValidationStatus, published []model.ValidationStatus) {
	for _, old := range published {
		if old.Name == v.Name && (old.State == v.State && old.Revision == v.Revision || old.Fails() && v.Fails()) {
			return
		}
	}
	if v.State == running || v.State == "" {
		return
	}
	w.addEvent(v.State == failure, "Validation"+v.State, health.JoinReason(v.Name, v.Message))
}

// The states of a validation that this package uses.
const (
	running = "Running"
	failure = "Failed"
)
