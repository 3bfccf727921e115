package pass

import (
	"fmt"
	"slices"

	"outrigger.dev/orchestrator/internal/model"
)

// prune adds to the plan the deletion of objects that the policy no longer has, in reverse order of
// the inventory, and returns the new inventory. Workloads are deleted first, and the other objects,
// such as their RBAC rules, after the workloads have ended. While the values are
// rejected, the desired objects are not known, so prune deletes no objects.
func (w *walk) prune() []model.Ref {
	// The inventory may list an object with another version of its kind.
	desired := map[model.Ref]model.Ref{}
	complete := w.state.Policy.Refused == ""
	for _, st := range w.stages {
		for _, object := range st.Objects {
			ref := model.RefOf(object)
			desired[ref.WithoutVersion()] = ref
		}
	}
	var keep []model.Ref
	var leaving []model.Seen
	listed := map[model.Ref]bool{}
	for _, ref := range w.state.Policy.Status.Inventory {
		now, isDesired := desired[ref.WithoutVersion()]
		if isDesired {
			ref = now
		}
		seen, there := w.state.Objects[ref]
		switch {
		case listed[ref]:
			continue
		case !there && !isDesired && complete:
			continue // the object is deleted
		case there && !seen.Ours:
			continue // another program manages the object now
		case !isDesired && complete && there && (w.state.Policy.Deleting || !Stays(ref)):
			leaving = append(leaving, seen)
		}
		listed[ref] = true
		keep = append(keep, ref)
	}
	if complete {
		w.plan.Delete = append(w.plan.Delete, w.deletable(leaving)...)
		w.plan.Delete = append(w.plan.Delete, w.leftovers()...)
	}
	for _, a := range w.plan.Apply {
		if ref := model.RefOf(a.Object); !listed[ref] {
			listed[ref] = true
			keep = append(keep, ref)
		}
	}
	return keep
}

// rank puts namespaces after all other objects.
func rank(s model.Seen) int {
	if s.Kind == "Namespace" {
		return 1
	}
	return 0
}

// Stays reports whether an object that is no longer part of the policy has to stay until
// the policy is deleted. The deletion of such an object would also delete objects of other
// programs.
func Stays(ref model.Ref) bool {
	return ref.Kind == "Namespace" || ref.Kind == "CustomResourceDefinition"
}

// deletable returns the objects to delete in this pass, out of the objects that the policy no
// longer has.
func (w *walk) deletable(leaving []model.Seen) []model.Seen {
	slices.Reverse(leaving)
	// Namespaces are last, because their deletion deletes all objects in them, in any order.
	slices.SortStableFunc(leaving, func(a, b model.Seen) int { return rank(a) - rank(b) })
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
