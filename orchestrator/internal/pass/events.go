package pass

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
)

// events adds an Event to the plan for each change since the published status: stages, ended
// validations, and conditions. A condition gets no Event if a stage has one for the same change.
func (w *walk) events() {
	for _, r := range w.results {
		old := w.last[r.Name]
		for _, v := range r.Validations {
			w.addValidationEvent(v, old.Validations)
		}
		switch ready := onANode(r.StageStatus); {
		case ready && onANode(old):
		case ready && r.Desired == 0:
			w.addEvent(false, "StageReady", fmt.Sprintf("stage %s is applied", r.Name))
		case ready:
			w.addEvent(false, "StageReady", fmt.Sprintf("stage %s is ready on %d of %d nodes", r.Name, r.Ready, r.Desired))
		case r.State == old.State:
		case r.State == model.Failed:
			w.addEvent(true, "StageFailed", stageMessage(r))
		case r.State == model.Progressing && model.Works(old.State):
			w.addEvent(false, "StageProgressing", stageMessage(r))
		}
	}
	for _, c := range w.plan.Status.Conditions {
		old := meta.FindStatusCondition(w.state.Policy.Status.Conditions, c.Type)
		if old == nil {
			old = &metav1.Condition{Status: metav1.ConditionUnknown}
		}
		w.addConditionEvent(c, *old)
	}
}

func (w *walk) addEvent(warning bool, reason, message string) {
	w.plan.Events = append(w.plan.Events, model.Event{Warning: warning, Reason: reason, Message: singleLine(message, maxMessage)})
}

// onANode reports whether a stage works on a ready node, or works and has no nodes. A stage whose
// agents only wait has no ready node.
func onANode(s model.StageStatus) bool {
	return model.Works(s.State) && (s.Ready > 0 || s.Desired == 0)
}

// addConditionEvent adds an Event if a condition has changed, unless the Event of a stage reports
// the change.
func (w *walk) addConditionEvent(c, old metav1.Condition) {
	isTrue, ready := c.Status == metav1.ConditionTrue, c.Type == model.ConditionReady
	switch {
	case old.Status == c.Status && (isTrue || old.Reason == c.Reason):
	case ready && isTrue:
		w.addEvent(false, "Ready", c.Message)
	case c.Reason == model.ReasonDeleting:
		w.addEvent(false, c.Reason, c.Message)
	case c.Reason == model.ReasonNoGPUNodes, c.Reason == model.ReasonLabelsMissing, c.Reason == model.ReasonNodesNotReady,
		ready && w.state.Policy.Refused != "":
		w.addEvent(true, c.Reason, c.Message)
	case c.Reason == model.ReasonNodesFailed:
		w.addEvent(true, "Degraded", c.Message)
	case c.Reason == model.ReasonNoFailure && old.Status == metav1.ConditionTrue:
		w.addEvent(false, "Recovered", c.Message)
	}
}

// addValidationEvent adds an Event if a validation has ended.
func (w *walk) addValidationEvent(v model.ValidationStatus, published []model.ValidationStatus) {
	for _, old := range published {
		if old.Name == v.Name && old.State == v.State && old.Revision == v.Revision {
			return
		}
	}
	if v.State == running || v.State == "" {
		return
	}
	w.addEvent(v.State == failure, "Validation"+v.State, joinReason(v.Name, v.Message))
}
