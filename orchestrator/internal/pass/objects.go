package pass

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
)

// stageChanges has the writes that a stage needs.
type stageChanges struct {
	apply  []model.Apply
	events []model.Event
	// changed says that an object is missing or has another desired content. If it is false, the
	// objects in apply only repair drift, or confirm the state after a restart.
	changed bool
	// conflict, failure and deleting are reasons why the stage cannot be applied.
	conflict, failure, deleting string
}

// objects compares the objects of a stage with the cluster.
func (w *walk) objects(st model.Stage) stageChanges {
	var todo stageChanges
	for _, object := range st.Objects {
		ref, hash := model.RefOf(object), model.Hash(object)
		if other, ok := w.applied[ref]; ok {
			if other.hash != hash && todo.conflict == "" {
				todo.conflict = fmt.Sprintf("%s: the stage %s has the same object with other content: set another name in the values of one of the stages", ref, other.stage)
			}
			continue
		}
		w.applied[ref] = applied{st.Name, hash}
		w.object(&todo, st.Name, object, ref, hash)
	}
	return todo
}

// object compares one object with the cluster.
func (w *walk) object(todo *stageChanges, stage string, object *unstructured.Unstructured, ref model.Ref, hash string) {
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
			Reason: "DriftRepaired", Message: health.SingleLine(fmt.Sprintf("%s was changed by %s, and is applied again", ref, cmp.Or(seen.Owner, "somebody else")), health.MaxMessage),
		})
	case !seen.Drifted && seen.Applied == hash:
		return
	}
	todo.apply = append(todo.apply, model.Apply{Stage: stage, Object: object, Hash: hash})
}

// published reports whether the published status includes this stage with the current values. Then
// a restart alone, after which no object is known to be applied, does not change the status.
func (w *walk) published(stage string) bool {
	_, ok := w.last[stage]
	return ok && w.state.Policy.Status.ObservedGeneration == w.state.Policy.Generation
}
