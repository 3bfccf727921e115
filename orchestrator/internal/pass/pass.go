// Package pass derives the writes of one pass from the desired and the observed state. It does no
// I/O and keeps no state between passes, so that an orchestrator that was killed continues from the
// observed state.
//
//	Stages, State ─▶ health ─▶ walk: needs ─▶ objects ─▶ validation
//	                            └▶ prune ─▶ inventory ─▶ conditions, events
package pass

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// Validate returns the result of a check so far, the pods to create and to remove, and the delay
// until the next call. If Validate is nil, validations stay unchanged.
type Validate func(c model.Check, s model.State, last model.ValidationStatus) (
	now model.ValidationStatus, create []*unstructured.Unstructured, remove []model.Seen, again time.Duration)

// Next returns the plan of one pass. A stage is applied once each stage that it needs in the same
// pool works on at least one node and has not failed its validation. Nothing else waits. Objects that
// the policy no longer has are deleted.
//
// Equal arguments give equal plans. If the cluster is as desired, the plan has no writes and no
// events, and its status is the status of the policy.
func Next(stages []model.Stage, s model.State, validate Validate) model.Plan {
	if s.Policy.Deleting {
		// The values, and whether they are accepted, do not matter for a deletion.
		stages, s.Policy.Refused = nil, ""
	}
	stages = slices.DeleteFunc(slices.Clone(stages), isEmpty)
	w := &walk{
		state: s, stages: stages, validate: validate, last: map[string]model.StageStatus{}, health: health.New(stages, s),
	}
	if list, err := pools.Parse(s.Policy.Values); err == nil && s.Policy.Refused == "" && !s.Policy.Deleting {
		w.pools = list
	}
	for _, st := range s.Policy.Status.Stages {
		w.last[st.Name] = st
	}
	if s.Policy.Refused == "" {
		for i := range stages {
			w.results = append(w.results, w.stage(i))
		}
	}
	w.plan.Status = w.status()
	w.events()
	w.plan.Again = model.Soonest(w.plan.Again, w.health.Again)
	return w.plan
}

// isEmpty reports whether a stage has no objects and no validations. An example is a chart that has
// only validations of other stages.
func isEmpty(st model.Stage) bool { return len(st.Objects) == 0 && len(st.Validations) == 0 }

// walk is the state of one pass.
type walk struct {
	state    model.State
	stages   []model.Stage
	validate Validate
	health   *health.View
	// last are the stages of the published status, by name.
	last    map[string]model.StageStatus
	pools   []pools.Pool
	results []result
	plan    model.Plan
}

// result is the health of a stage, and the progress of its objects and validations.
type result struct {
	health.Stage
	// rejected says that an object cannot be applied.
	rejected bool
	// moves says that the objects are not applied on all nodes yet, or that a validation has no
	// result for them.
	moves bool
	// opens says that the stages that need this stage may start.
	opens bool
	// fails is the message of a validation that has failed on all nodes.
	fails string
}

// stage returns the result of one stage, and adds its writes to the plan.
func (w *walk) stage(i int) result {
	st := w.stages[i]
	r := result{Stage: w.health.Stage(st)}
	r.moves = r.Waiting > 0 || r.Updated < r.Desired || !r.Current
	r.opens = r.Works
	todo := w.objects(st)
	switch need := w.unmet(st, w.results); {
	case need != "" && todo.changed:
		r.set(model.Waiting, "waits for the stage "+need)
	default:
		w.plan.Apply = append(w.plan.Apply, todo.apply...)
		w.plan.Events = append(w.plan.Events, todo.events...)
		w.report(&r, todo)
	}
	w.validated(&r, st, r.Proven && len(todo.apply) == 0 && !todo.changed && w.validate != nil)
	r.Message = health.SingleLine(r.Message, health.MaxMessage)
	return r
}

// report sets the state of a stage whose objects are not as desired.
func (w *walk) report(r *result, todo stageChanges) {
	switch {
	case todo.failure != "":
		r.reject(todo.failure)
	case todo.deleting != "":
		r.set(model.Progressing, todo.deleting)
	case todo.changed && !model.Broken(r.State):
		r.set(model.Progressing, "its objects are being applied")
	case todo.changed:
		r.moves = true
	}
	// A stage with 0 nodes opens only if its objects are applied: before that, it is not known
	// whether a node needs the stage.
	r.opens = r.opens && (!todo.changed && todo.deleting == "" || r.Desired > 0)
}

// set sets the state of a stage that is not applied.
func (r *result) set(state, message string) {
	r.State, r.Message, r.moves = state, message, true
	r.opens = r.opens && r.Desired > 0
}

// reject sets the state of a stage with an object that cannot be applied.
func (r *result) reject(message string) {
	r.set(model.Failed, message)
	r.rejected, r.Broken = true, true
}

// unmet returns the stage that keeps another stage of its pool from starting, or "". A needed chart
// that is not installed does not count.
func (w *walk) unmet(st model.Stage, before []result) string {
	if w.state.Policy.Ungated {
		return ""
	}
	for j, r := range before {
		if need := w.stages[j]; need.Pool == st.Pool && slices.Contains(st.Needs, need.Chart()) && !r.opens {
			return need.Name
		}
	}
	return ""
}

// validated sets the validations of a stage. If drive is set, they continue, one after the other.
// Otherwise the published results are used. The stages that need this stage do not start while a
// validation has no result or has failed.
func (w *walk) validated(r *result, st model.Stage, drive bool) {
	known := w.last[st.Name].Validations
	for _, check := range st.Validations {
		now := model.ValidationStatus{Name: check.Name}
		if at := slices.IndexFunc(known, func(v model.ValidationStatus) bool { return v.Name == check.Name }); at >= 0 {
			now = known[at]
		}
		if drive {
			now = w.check(st, check, now)
		}
		if now.State != "" {
			r.Validations = append(r.Validations, now)
		}
		ended := now.Ended(check.Revision)
		drive = drive && ended && !now.Fails()
		if r.Desired == 0 {
			continue // no node can run it
		}
		r.moves = r.moves || !ended
		r.opens = r.opens && now.Time != nil && !now.Fails()
		switch {
		case now.Fails() && r.fails == "":
			r.fails = health.JoinReason(now.Name+" failed", now.Message)
		case !ended && r.State == model.Ready:
			r.Message = health.JoinReason(now.Name+" is running", now.Message)
		}
	}
}

// check continues one validation, and adds its pods to the plan.
func (w *walk) check(st model.Stage, check model.Check, last model.ValidationStatus) model.ValidationStatus {
	s := w.state
	s.Nodes = w.nodesOf(st)
	now, create, remove, again := w.validate(check, s, last)
	now.Message = health.SingleLine(now.Message, health.MaxMessage)
	w.plan.Create = append(w.plan.Create, create...)
	w.plan.Delete = append(w.plan.Delete, remove...)
	w.plan.Again = model.Soonest(w.plan.Again, again)
	return now
}

// sentence returns the state of a stage that is not ready, or of its validation, as text.
func (r *result) sentence() string {
	switch {
	case r.State == model.Failed:
		return fmt.Sprintf("stage %s failed: %s", r.Name, r.Message)
	case r.fails != "" && !r.Broken:
		return fmt.Sprintf("stage %s: %s", r.Name, r.fails)
	}
	return fmt.Sprintf("stage %s: %s", r.Name, r.Message)
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
