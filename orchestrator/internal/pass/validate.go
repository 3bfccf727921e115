package pass

import (
	"slices"

	"outrigger.dev/orchestrator/internal/model"
)

// The states of a validation that this package uses.
const (
	running = "Running"
	failure = "Failed"
)

// validated sets the validations of a stage and, if its DaemonSets are ready, its state. It reports
// whether all validations have passed or were skipped. If drive is set, the validations continue,
// one after the other. Otherwise the published results are used.
func (w *walk) validated(r *result, st model.Stage, drive bool) bool {
	known := w.last[st.Name].Validations
	passed := true
	for _, check := range st.Validations {
		last := model.ValidationStatus{Name: check.Name}
		at := slices.IndexFunc(known, func(v model.ValidationStatus) bool { return v.Name == check.Name })
		if at >= 0 {
			last = known[at]
		}
		now := last
		if passed && drive {
			now = w.check(st, check, last)
		} else if at < 0 {
			passed = false
			continue
		}
		r.Validations = append(r.Validations, now)
		// A validation that already had a result for the current stage may be repeated, for example
		// because no GPU was free. The stage stays ready during the repetition.
		if now.State == running && model.Works(w.last[st.Name].State) && (last.State == running || last.Revision == check.Revision) {
			continue
		}
		if passed && r.State == model.Ready {
			passed = judgeValidation(r, now)
		}
	}
	if !passed && r.State == model.Ready {
		r.State, r.Message = model.Validating, "not validated yet"
	}
	return passed
}

// check continues one validation, and adds its pods to the plan.
func (w *walk) check(st model.Stage, check model.Check, last model.ValidationStatus) model.ValidationStatus {
	s := w.state
	s.Nodes = w.nodesOf(st)
	now, create, remove, again := w.validate(check, s, last)
	now.Message = singleLine(now.Message, maxMessage)
	w.plan.Create = append(w.plan.Create, create...)
	w.plan.Delete = append(w.plan.Delete, remove...)
	w.index.again = model.Soonest(w.index.again, again)
	return now
}

// judgeValidation sets the state of a stage whose validation runs or has failed. It returns true if
// the validation has passed or was skipped.
func judgeValidation(r *result, v model.ValidationStatus) bool {
	switch v.State {
	case running:
		return r.stops(model.Validating, joinReason(v.Name+" is running", v.Message), r.reason)
	case failure:
		return r.stops(model.Failed, joinReason(v.Name+" failed", v.Message), model.ReasonValidationFailed)
	}
	return true
}

// joinReason joins an event and its reason.
func joinReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// leftovers returns the pods of validations that no stage has any more.
func (w *walk) leftovers() []model.Seen {
	wanted := map[string]bool{}
	for _, st := range w.stages {
		for _, check := range st.Validations {
			wanted[check.Name] = true
		}
	}
	var out []model.Seen
	for _, p := range w.state.Pods {
		if p.Revision != "" && !wanted[p.Owner] && !p.Deleting {
			out = append(out, model.Seen{Ref: model.Ref{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name}, Ours: true})
		}
	}
	return out
}
