package pass

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// stageChanges has the writes that a stage needs.
type stageChanges struct {
	apply  []model.Apply
	events []model.Event
	// changed says that an object is missing or has another desired content. If it is false, the
	// objects in apply only repair drift, or confirm the state after a restart.
	changed bool
	// failure and deleting are reasons why the stage cannot be applied.
	failure, deleting string
}

// objects compares the objects of a stage with the cluster.
func (w *walk) objects(st model.Stage) stageChanges {
	var todo stageChanges
	for _, object := range st.Objects {
		w.object(&todo, st.Name, object)
	}
	return todo
}

// object compares one object with the cluster.
func (w *walk) object(todo *stageChanges, stage string, object *unstructured.Unstructured) {
	ref, hash := model.RefOf(object), model.Hash(object)
	seen, there := w.state.Objects[ref]
	switch {
	case there && !seen.Ours && ref.Kind == "Namespace":
		return // an existing Namespace is used unchanged
	case there && seen.Deleting:
		w.plan.Left = append(w.plan.Left, ref.String())
		if todo.deleting == "" {
			todo.deleting = fmt.Sprintf("%s is being deleted, and is applied again once it is gone", ref)
		}
		return
	}
	failure := w.state.Failures[ref]
	if todo.failure == "" {
		todo.failure = failure
	}
	switch {
	case !there, !seen.Ours, seen.Applied != "" && seen.Applied != hash, seen.Applied == "" && !w.published(stage):
		todo.changed = true
	case seen.Applied == "":
	case seen.Drifted && failure == "":
		todo.events = append(todo.events, model.Event{
			Repair: true, Reason: "DriftRepaired", Message: health.SingleLine(fmt.Sprintf("%s was changed by %s, and is applied again", ref, cmp.Or(seen.Owner, "somebody else")), health.MaxMessage),
		})
	case !seen.Drifted && seen.Applied == hash:
		return
	}
	todo.apply = append(todo.apply, model.Apply{Stage: stage, Object: object, Hash: hash})
}

// published reports whether the published status includes this stage with the current values. If it does, a restart
// alone does not change the status, although no object is known to be applied after it.
func (w *walk) published(stage string) bool {
	_, ok := w.last[stage]
	return ok && w.state.Policy.Status.ObservedGeneration == w.state.Policy.Generation
}

// prune adds to the plan the deletion of objects that the policy no longer has, in reverse order of
// the inventory, and returns the new inventory. Workloads are deleted first, and the other objects,
// such as their RBAC rules, after the workloads have ended. While the values are
// rejected, the desired objects are not known, so prune deletes no objects.
func (w *walk) prune() []model.Ref {
	// The inventory may list an object with another version of its kind.
	desired := map[model.Ref]model.Ref{}
	complete := w.state.Policy.Refused == ""
	for _, ref := range model.Inventory(w.stages) {
		desired[ref.WithoutVersion()] = ref
	}
	var keep []model.Ref
	var leaving []model.Seen
	listed := map[model.Ref]bool{}
	for _, ref := range append(w.orphans(desired), w.state.Policy.Status.Inventory...) {
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
		case !isDesired && complete && there && !w.state.Policy.Keep && (w.state.Policy.Deleting || !Stays(ref)):
			leaving = append(leaving, seen)
		}
		listed[ref] = true
		keep = append(keep, ref)
	}
	if complete {
		w.plan.Delete = append(w.plan.Delete, w.deletable(leaving)...)
		w.plan.Delete = append(w.plan.Delete, w.leftovers()...)
	}
	return append(keep, w.unlisted(listed)...)
}

// orphans returns the objects that an orchestrator has applied, and that neither the inventory nor the values have.
// Somebody has deleted the policy that listed them together with its definition, and has restored both with other values.
func (w *walk) orphans(desired map[model.Ref]model.Ref) []model.Ref {
	listed := map[model.Ref]bool{}
	for _, ref := range w.state.Policy.Status.Inventory {
		listed[ref.WithoutVersion()] = true
	}
	var found []model.Ref
	for ref, seen := range w.state.Objects {
		if _, isDesired := desired[ref.WithoutVersion()]; seen.Ours && !isDesired && !listed[ref.WithoutVersion()] {
			found = append(found, ref)
		}
	}
	slices.SortFunc(found, func(a, b model.Ref) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// unlisted returns the desired objects that the inventory does not list: this plan applies them, or an orchestrator has
// applied them, and somebody has deleted the inventory, or the policy of the same name that had it. If they were not in
// the inventory, they would stay after the deletion of the policy.
func (w *walk) unlisted(listed map[model.Ref]bool) []model.Ref {
	applies := map[model.Ref]bool{}
	for _, a := range w.plan.Apply {
		applies[model.RefOf(a.Object)] = true
	}
	var found []model.Ref
	for _, ref := range model.Inventory(w.stages) {
		if (applies[ref] || w.state.Objects[ref].Ours) && !listed[ref] {
			listed[ref] = true
			found = append(found, ref)
		}
	}
	return found
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

// addOverlaps adds a problem for the GPU nodes that several pools select. Such a node belongs to the
// first of these pools, and runs only the agents of that pool. No stage waits for a fix of the labels.
func (w *walk) addOverlaps() {
	for _, n := range w.state.Nodes {
		if names := pools.Selecting(w.pools, n.Labels); len(names) > 1 && n.HasGPU() {
			w.health.Overlap(n.Name, fmt.Sprintf("the pools %s have the labels of the node, which stays in %s", strings.Join(names, " and "), names[0]))
		}
	}
}

// nodesOf returns the nodes that can validate a stage: the nodes of its pool.
func (w *walk) nodesOf(st model.Stage) []*model.Node {
	if len(w.pools) == 0 {
		return w.state.Nodes
	}
	return slices.DeleteFunc(slices.Clone(w.state.Nodes), func(n *model.Node) bool {
		return pools.First(w.pools, n.Labels) != st.Pool
	})
}
