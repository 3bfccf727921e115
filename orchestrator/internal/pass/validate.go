package pass

import (
	"slices"

	"outrigger.dev/orchestrator/internal/model"
)

// The states of a validation that this package tells apart.
const (
	running = "Running"
	failure = "Failed"
)

// validated sets the validations of a stage and, if its DaemonSets are ready, its state. It
// reports whether all validations have passed or were skipped. With drive they go on, one after
// the other; otherwise the result is what is known.
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
		// One that has had a result for this stage as it is may be repeated, for example because no GPU
		// was free. The stage stays ready meanwhile.
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

// check lets one validation go on.
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

// judgeValidation sets the state of a stage whose validation runs or failed, and reports
// whether it did neither.
func judgeValidation(r *result, v model.ValidationStatus) bool {
	switch v.State {
	case running:
		return r.stops(model.Validating, joinReason(v.Name+" is running", v.Message), r.reason)
	case failure:
		return r.stops(model.Failed, joinReason(v.Name+" failed", v.Message), model.ReasonValidationFailed)
	}
	return true
}

// joinReason joins what happened and why.
func joinReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// leftovers returns the pods of validations that the policy no longer has.
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
