package pass

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
)

// events returns what has changed since the published status: stages that became ready or
// failed, validations that ended, and the conditions.
func (w *walk) events() []model.Event {
	var out []model.Event
	tell := func(warning bool, reason, message string) {
		out = append(out, model.Event{Warning: warning, Reason: reason, Message: line(message, maxMessage)})
	}
	for _, r := range w.results {
		old := w.last[r.Name]
		for _, v := range r.Validations {
			tellValidation(tell, v, old.Validations)
		}
		switch {
		case r.State == old.State:
		case r.State == model.Ready:
			tell(false, "StageReady", fmt.Sprintf("stage %s is ready on %d of %d nodes", r.Name, r.Ready, r.Desired))
		case r.State == model.Failed:
			tell(true, "StageFailed", fmt.Sprintf("stage %s failed: %s", r.Name, r.Message))
		}
	}
	for _, c := range w.plan.Status.Conditions {
		old := meta.FindStatusCondition(w.state.Policy.Status.Conditions, c.Type)
		if old != nil && old.Status == c.Status && (old.Reason == c.Reason || c.Status == metav1.ConditionTrue) {
			continue
		}
		switch {
		case c.Type == model.ConditionReady && c.Status == metav1.ConditionTrue:
			tell(false, "Ready", c.Message)
		case c.Type == model.ConditionReady && c.Reason != model.ReasonOperandNotReady || c.Type == model.ConditionReady && old != nil && old.Status != c.Status:
			tell(true, c.Reason, c.Message)
		case c.Type == model.ConditionDegraded && c.Status == metav1.ConditionTrue:
			tell(true, "Degraded", c.Message)
		case c.Type == model.ConditionDegraded && old != nil && old.Status != c.Status:
			tell(false, "Recovered", c.Message)
		}
	}
	return out
}

// tellValidation tells that a validation has ended.
func tellValidation(tell func(bool, string, string), v model.ValidationStatus, published []model.ValidationStatus) {
	for _, old := range published {
		if old.Name == v.Name && old.State == v.State && old.Of == v.Of {
			return
		}
	}
	if v.State == running || v.State == "" {
		return
	}
	tell(v.State == failure, "Validation"+v.State, words(v.Name, v.Message))
}
