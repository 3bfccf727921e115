package pass

import (
	"fmt"
	"slices"

	"outrigger.dev/orchestrator/internal/model"
)

// renamed returns an inventory with the versions that stages now have of the same objects.
func renamed(inventory []model.Ref, stages []model.Stage) []model.Ref {
	now := map[model.Ref]model.Ref{}
	for _, st := range stages {
		for _, object := range st.Objects {
			ref := model.RefOf(object)
			now[ref.WithoutVersion()] = ref
		}
	}
	listed := map[model.Ref]bool{}
	var out []model.Ref
	for _, ref := range inventory {
		if desired, ok := now[ref.WithoutVersion()]; ok {
			ref = desired
		}
		if !listed[ref] {
			listed[ref] = true
			out = append(out, ref)
		}
	}
	return out
}

// prune adds to the plan what has left the policy, in reverse order of the inventory, and returns
// the new inventory. Workloads go first: the rest, with their rights, goes once they have ended. While
// a stage cannot be rendered, nothing goes, because what it desires is not known.
func (w *walk) prune() []model.Ref {
	desired := map[model.Ref]bool{}
	complete := w.state.Policy.Refused == ""
	for _, st := range w.stages {
		complete = complete && st.Refused == ""
		for _, object := range st.Objects {
			desired[model.RefOf(object)] = true
		}
	}
	var keep []model.Ref
	var leaving []model.Seen
	for _, ref := range w.state.Policy.Status.Inventory {
		seen, there := w.state.Objects[ref]
		switch {
		case !there && !desired[ref] && complete:
			continue // It is gone.
		case there && !seen.Ours:
			continue // Somebody else has it now.
		case !desired[ref] && complete && there && (w.state.Policy.Deleting || !Stays(ref)):
			leaving = append(leaving, seen)
		}
		keep = append(keep, ref)
	}
	if complete {
		w.plan.Delete = append(w.plan.Delete, w.leave(leaving)...)
		w.plan.Delete = append(w.plan.Delete, w.leftovers()...)
	}
	listed := map[model.Ref]bool{}
	for _, ref := range keep {
		listed[ref] = true
	}
	for _, a := range w.plan.Apply {
		if ref := model.RefOf(a.Object); !listed[ref] {
			listed[ref] = true
			keep = append(keep, ref)
		}
	}
	return keep
}

// Stays reports whether an object that left the policy is kept until the policy is deleted,
// because what others have in it would go with it.
func Stays(ref model.Ref) bool {
	return ref.Kind == "Namespace" || ref.Kind == "CustomResourceDefinition"
}

// leave returns which of the objects that leave are deleted now.
func (w *walk) leave(leaving []model.Seen) []model.Seen {
	slices.Reverse(leaving)
	// Namespaces last: the rest goes with them, in no order.
	slices.SortStableFunc(leaving, func(a, b model.Seen) int { return order(a.Kind == "Namespace") - order(b.Kind == "Namespace") })
	workloads := slices.ContainsFunc(leaving, func(s model.Seen) bool { return s.RunsPods() })
	var out []model.Seen
	for _, seen := range leaving {
		if err := w.state.Failures[seen.Ref]; err != "" {
			w.plan.Left = append(w.plan.Left, fmt.Sprintf("%s: %s", seen.Ref, err))
		} else {
			w.plan.Left = append(w.plan.Left, seen.Ref.String())
		}
		if !seen.Deleting && (seen.RunsPods() || !workloads) {
			out = append(out, seen)
		}
	}
	return out
}
