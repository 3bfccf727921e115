// Package pass derives the writes of one pass from the desired and the observed state. It does no
// I/O and keeps no state between passes, so that an orchestrator that was killed continues from the
// observed state.
//
//	Stages, State ─▶ walk: objects ─▶ gate ─▶ validation ─▶ next stage
//	                  └▶ prune ─▶ inventory    └▶ causes ─▶ problems ─▶ conditions, events
package pass

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// Validate returns the result of a check so far, the pods to create and to remove, and the delay
// until the next call. If Validate is nil, validations stay unchanged.
type Validate func(c model.Check, s model.State, last model.ValidationStatus) (
	now model.ValidationStatus, create []*unstructured.Unstructured, remove []model.Seen, again time.Duration)

// Next returns the plan of one pass. The stages are in order. A stage is applied after the stages
// before it in the same pool are ready on at least one node and validated. A stage that cannot be
// applied stops the pass there. Objects that the policy no longer has are deleted.
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
		state: s, stages: stages, validate: validate, closed: map[string]string{}, applied: map[model.Ref]applied{},
		last: map[string]model.StageStatus{}, index: newIndex(s), overlaps: pools.Overlaps(poolsOf(stages), s.Nodes),
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
	w.plan.Again = w.index.again
	return w.plan
}

// isEmpty reports whether a stage has no objects and no validations. An example is a chart that has
// only validations of other stages.
func isEmpty(st model.Stage) bool {
	return len(st.Objects) == 0 && len(st.Validations) == 0 && st.Refused == ""
}

// walk is the state of one pass.
type walk struct {
	state    model.State
	stages   []model.Stage
	validate Validate
	// last are the stages of the published status, by name.
	last  map[string]model.StageStatus
	index *index
	// overlaps are the nodes that several pools select, with the names of these pools.
	overlaps map[string][]string
	// closed has the names of the stages that stopped the pass, by pool.
	closed map[string]string
	// applied has the objects of the stages that this pass has walked so far.
	applied map[model.Ref]applied
	results []result
	plan    model.Plan
}

// applied is the stage that desires an object, and the hash of the desired content.
type applied struct{ stage, hash string }

// result is the status of a stage, and the reason of the condition Ready while it is not ready.
type result struct {
	model.StageStatus
	reason string
	// works is the number of working nodes, as text. It is empty if the stage works on all nodes.
	works string
	// missing is the number of nodes without a pod.
	missing int
}

// stops sets the state of a stage that keeps the next stage from starting, and returns false.
func (r *result) stops(state, message, reason string) bool {
	r.State, r.Message, r.reason = state, message, reason
	return false
}

// stage returns the result of one stage, and adds its writes to the plan. Unless the stage works on
// a node, it closes the gate for the stages after it.
func (w *walk) stage(i int) result {
	st := w.stages[i]
	seen := w.observe(st)
	r := result{StageStatus: seen.status, missing: seen.missing}
	if !w.decide(&r, st, seen, w.needed(i)) && w.closed[st.Pool] == "" && !w.state.Policy.Ungated {
		w.closed[st.Pool] = st.Name
	}
	if r.State == model.Ready {
		w.complete(&r, seen)
	}
	r.Message = singleLine(r.Message, maxMessage)
	return r
}

// opens reports whether the next stage may start after a stage in this state.
func opens(state string) bool { return model.Works(state) || state == model.NothingToDo }

// complete sets the state and the message of a working stage that does not work on all nodes.
func (w *walk) complete(r *result, seen observed) {
	r.works = fmt.Sprintf("%d of %d nodes are ready", r.Ready, r.Desired)
	switch {
	case seen.updated < r.Desired:
		r.State, r.works = model.RollingOut, fmt.Sprintf("%d of %d nodes have the current version", seen.updated, r.Desired)
	case r.Waiting > 0:
		r.State = model.RollingOut
	case r.Failed > 0:
		r.State = model.Degraded
	default:
		return
	}
	r.Message = joinReason(r.works, w.index.worst(r.Name))
}

// decide sets the state of a stage, and reports whether the next one may start.
func (w *walk) decide(r *result, st model.Stage, seen observed, needed bool) bool {
	r.reason = model.ReasonOperandNotReady
	if st.Refused != "" {
		return r.stops(model.Failed, st.Refused, model.ReasonValuesRefused)
	}
	todo := w.objects(st)
	before, last := w.closed[st.Pool], w.last[st.Name]
	keep := todo.unknown && !opens(last.State)
	switch {
	case before != "" && todo.changed:
		return r.stops(model.Pending, "waits for the stage "+before, r.reason)
	case before != "" && keep:
		w.retain(r, st, last)
		return false
	case before != "":
		// The objects that the stage applied before are as desired. An earlier stage that is not
		// ready does not change its state.
		w.judge(r, st, seen, needed)
		w.validated(r, st, false)
		return false
	case todo.conflict != "":
		return r.stops(model.Failed, todo.conflict, model.ReasonReconcileFailed)
	}
	w.plan.Apply = append(w.plan.Apply, todo.apply...)
	w.plan.Events = append(w.plan.Events, todo.events...)
	switch {
	case todo.failure != "":
		return r.stops(model.Failed, todo.failure, model.ReasonReconcileFailed)
	case todo.deleting != "":
		return r.stops(model.Progressing, todo.deleting, r.reason)
	case todo.changed:
		return r.stops(model.Progressing, "its objects are being applied", r.reason)
	case keep:
		w.retain(r, st, last)
		return false
	}
	open, repairs := w.judge(r, st, seen, needed), len(todo.apply) > 0
	passed := w.validated(r, st, r.State == model.Ready && !repairs && w.validate != nil)
	return open && !repairs && (passed || r.State != model.Validating && r.State != model.Failed)
}

// retain keeps the published state of a stage until its objects are known.
func (w *walk) retain(r *result, st model.Stage, last model.StageStatus) {
	r.State, r.Message = last.State, last.Message
	if c := meta.FindStatusCondition(w.state.Policy.Status.Conditions, model.ConditionReady); c != nil {
		r.reason = c.Reason
	}
	w.validated(r, st, false)
}

// judge derives the state of a stage from its DaemonSets, if its objects are as desired. It reports
// whether the next stage may start.
func (w *walk) judge(r *result, st model.Stage, seen observed, needed bool) bool {
	switch {
	case !seen.current:
		return r.stops(model.Progressing, "the DaemonSet controller has not seen the last change yet", r.reason)
	case seen.daemonSets > 0 && r.Desired == 0:
		r.State, r.Message = model.NothingToDo, "no node matches its nodeSelector and affinity"
		if w.index.gpus > 0 {
			r.Message += fmt.Sprintf("; %s in the cluster: check these values, and the labels nvidia.com/gpu.deploy.* of the nodes", gpuNodes(w.index.gpus))
		}
		return true
	case seen.proven:
		r.State = model.Ready
		return true
	}
	r.State, r.Message = model.Progressing, fmt.Sprintf("0 of %d nodes are ready with the current version", r.Desired)
	switch {
	case r.Failed > 0 && r.Waiting > 0:
		r.Message += fmt.Sprintf(", %d wait and %d %s failed", r.Waiting, r.Failed, hasOrHave(r.Failed))
	case r.Failed > 0:
		r.State = model.Failed
	}
	r.Message = joinReason(r.Message, seen.why(w.index.worst(st.Name)))
	return seen.onlyWaits && !needed
}

func hasOrHave(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// needed reports whether a later stage of the pool needs this one. An agent that waits, for example
// feature discovery for a driver, delays only the stages that need it.
func (w *walk) needed(i int) bool {
	for _, later := range w.stages[i+1:] {
		if later.Pool == w.stages[i].Pool && slices.Contains(later.Needs, w.stages[i].Chart()) {
			return true
		}
	}
	return false
}
