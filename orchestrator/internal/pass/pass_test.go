package pass_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// stage returns the status of a stage in a plan.
func stage(t *testing.T, plan model.Plan, name string) model.StageStatus {
	t.Helper()
	for _, st := range plan.Status.Stages {
		if st.Name == name {
			return st
		}
	}
	t.Fatalf("no stage %s in %+v", name, plan.Status.Stages)
	return model.StageStatus{}
}

func applied(plan model.Plan) []string {
	var out []string
	for _, a := range plan.Apply {
		out = append(out, a.Stage+" "+a.Object.GetKind())
	}
	return out
}

func TestGate(t *testing.T) {
	waits := model.Pod{Phase: "Running", Reason: "NotReady"}
	for name, tc := range map[string]struct {
		change func(*world)
		// want is what is applied.
		want []string
	}{
		"a change is applied": {func(w *world) { w.changes("device-plugin") }, []string{"device-plugin DaemonSet"}},
		"a stage that is being applied holds up nothing while an older version works": {
			func(w *world) { w.changes("container-toolkit"); w.changes("device-plugin") },
			[]string{"container-toolkit DaemonSet", "device-plugin DaemonSet"},
		},
		"a stage that is applied for the first time holds up the stages that need it": {
			func(w *world) { w.without("container-toolkit", "device-plugin") },
			[]string{"container-toolkit ServiceAccount", "container-toolkit DaemonSet"},
		},
		"a stage whose objects nobody has counted yet holds up the stages that need it": {
			func(w *world) { *w.daemonSet("container-toolkit") = model.DaemonSet{}; w.changes("device-plugin") }, nil,
		},
		"a stage of which no node has the new version yet holds up nothing": {
			func(w *world) { w.daemonSet("container-toolkit").Updated = 0; w.changes("device-plugin") }, []string{"device-plugin DaemonSet"},
		},
		"a node that breaks holds up nothing": {
			func(w *world) {
				w.breaks("container-toolkit", 2, model.Pod{Phase: "Running", Reason: "CrashLoopBackOff"})
				w.changes("device-plugin")
			}, []string{"device-plugin DaemonSet"},
		},
		"a stage that no node matches holds up nothing": {
			func(w *world) {
				ds := w.daemonSet("container-toolkit")
				ds.Desired, ds.Updated, ds.Ready = 0, 0, 0
				w.changes("device-plugin")
			}, []string{"device-plugin DaemonSet"},
		},
		"agents that wait hold up the stages that need them": {
			func(w *world) { w.breaks("container-toolkit", 3, waits); w.changes("device-plugin") }, nil,
		},
		"agents that wait hold up no other stage": {
			func(w *world) {
				w.breaks("feature-discovery", 3, waits)
				w.reports(3, "DriverNotFound", "no driver")
				w.changes("container-toolkit")
			}, []string{"container-toolkit DaemonSet"},
		},
		"agents that fail hold up no other stage": {
			func(w *world) {
				w.breaks("feature-discovery", 3, model.Pod{Phase: "Pending", Reason: "ErrImagePull"})
				w.changes("container-toolkit")
				w.changes("device-plugin")
			}, []string{"container-toolkit DaemonSet", "device-plugin DaemonSet"},
		},
		"a failed validation holds up the stages that need it": {
			func(w *world) {
				w.validates(model.ValidationStatus{State: "Failed", Revision: "1", Failed: 1, Time: &metav1.Time{Time: noon()}})
			}, []string{"feature-discovery DaemonSet"},
		},
		"the repetition of a failed validation holds up the stages that need it": {
			func(w *world) {
				w.validates(model.ValidationStatus{State: "Running", Failed: 1, Time: &metav1.Time{Time: noon()}})
			}, []string{"feature-discovery DaemonSet"},
		},
		"a validation without a result holds up the stages that need it": {
			func(w *world) { w.validates(model.ValidationStatus{State: "Running"}) }, []string{"feature-discovery DaemonSet"},
		},
		"a validation that passed before holds up nothing": {
			func(w *world) {
				w.validates(model.ValidationStatus{State: "Running", Revision: "0", Time: &metav1.Time{Time: noon()}})
			}, []string{"feature-discovery DaemonSet", "device-plugin DaemonSet"},
		},
		"drift is repaired together with a change": {
			func(w *world) { w.drifts("container-toolkit"); w.changes("device-plugin") },
			[]string{"container-toolkit DaemonSet", "device-plugin DaemonSet"},
		},
		"what is deleted by somebody else is applied once it is gone": {
			func(w *world) {
				ref := daemonSetRef("device-plugin")
				seen := w.state.Objects[ref]
				seen.Deleting = true
				w.state.Objects[ref] = seen
			}, nil,
		},
		"an object that is to be adopted is applied": {
			func(w *world) { w.foreign("device-plugin", "") }, []string{"device-plugin DaemonSet"},
		},
		"an object of somebody else is tried again": {
			func(w *world) { w.foreign("device-plugin", "kubectl") }, []string{"device-plugin DaemonSet"},
		},
		"an object of somebody else holds up nothing while it works": {
			func(w *world) { w.foreign("container-toolkit", "kubectl"); w.changes("device-plugin") },
			[]string{"container-toolkit DaemonSet", "device-plugin DaemonSet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy(3)
			w.publish(t, w.next())
			tc.change(w)
			plan := w.next()
			if got := applied(plan); !slices.Equal(got, tc.want) {
				t.Errorf("applied %q, want %q; stages: %+v", got, tc.want, plan.Status.Stages)
			}
			if len(plan.Delete) > 0 {
				t.Errorf("deleted %v", plan.Delete)
			}
		})
	}
}

// validates gives the container toolkit a validation with a result, and changes the stages around it.
func (w *world) validates(v model.ValidationStatus) {
	w.stages[1].Validations = []model.Check{{Name: "check", Revision: "1"}}
	v.Name = "check"
	w.state.Policy.Status.Stages[1].Validations = []model.ValidationStatus{v}
	w.changes("feature-discovery")
	w.changes("device-plugin")
}

// TestValidationsAreNoProgress repeats a validation without a change, then with one: the policy stays
// ready, Progressing says whether the values are validated, and one Event reports a failure.
func TestValidationsAreNoProgress(t *testing.T) {
	w := healthy(1)
	w.stages[1].Validations = []model.Check{{Name: "check", Revision: "1"}}
	step := func(state, of string, failed int, progressing, degraded string, events ...string) {
		t.Helper()
		now := model.ValidationStatus{Name: "check", State: state, Revision: of, Failed: failed}
		if last := w.state.Policy.Status.Stages; state != "Running" || last != nil && last[1].Validations[0].Time != nil {
			now.Time = &metav1.Time{Time: noon()}
		}
		plan := pass.Next(w.stages, w.state, func(model.Check, model.State, model.ValidationStatus) (
			model.ValidationStatus, []*unstructured.Unstructured, []model.Seen, time.Duration,
		) {
			return now, nil, nil, 0
		})
		var got []string
		for _, e := range plan.Events {
			got = append(got, e.Reason)
		}
		if s := plan.Status; s.State != model.StateReady || s.Conditions[1].Reason != progressing || s.Conditions[2].Reason != degraded || !slices.Equal(got, events) {
			t.Errorf("with a validation that is %s, the policy is %s, and the events are %q; want %s, %s, %q", state, s.State, got, progressing, degraded, events)
			t.Logf("%+v", s.Conditions)
		}
		w.publish(t, plan)
	}
	step("Running", "", 0, model.ReasonRollingOut, model.ReasonNoFailure, "Ready")
	step("Skipped", "1", 0, model.ReasonApplied, model.ReasonNoFailure, "ValidationSkipped")
	step("Running", "", 0, model.ReasonApplied, model.ReasonNoFailure)
	step("Passed", "1", 0, model.ReasonApplied, model.ReasonNoFailure, "ValidationPassed")
	w.stages[1].Validations[0].Revision = "2"
	step("Running", "1", 0, model.ReasonRollingOut, model.ReasonNoFailure)
	step("Failed", "2", 1, model.ReasonApplied, model.ReasonValidationFailed, "ValidationFailed")
	step("Running", "", 1, model.ReasonApplied, model.ReasonValidationFailed)
	step("Failed", "2", 1, model.ReasonApplied, model.ReasonValidationFailed)
	step("Running", "", 1, model.ReasonApplied, model.ReasonValidationFailed)
	step("Passed", "2", 0, model.ReasonApplied, model.ReasonNoFailure, "ValidationPassed", "Recovered")
}

func (w *world) drifts(stage string) {
	ref := daemonSetRef(stage)
	seen := w.state.Objects[ref]
	seen.Drifted = true
	w.state.Objects[ref] = seen
}

func TestNamespaceOfSomebodyElseIsUsedAsItIs(t *testing.T) {
	w := healthy(1)
	ns := &unstructured.Unstructured{Object: map[string]any{}}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName("gpu-operator-resources")
	w.stages[0].Objects = append([]*unstructured.Unstructured{ns}, w.stages[0].Objects...)
	w.state.Objects[model.RefOf(ns)] = model.Seen{Ref: model.RefOf(ns), Owner: "kubectl"}
	plan := w.next()
	if len(plan.Apply) > 0 || slices.Contains(plan.Status.Inventory, model.RefOf(ns)) || plan.Status.State != model.StateReady {
		t.Errorf("the plan is %+v", plan)
	}
}

func TestNamespaceThatLeavesThePolicyStaysUntilItIsDeleted(t *testing.T) {
	w := healthy(1)
	ref := model.Ref{APIVersion: "v1", Kind: "Namespace", Name: "old"}
	w.state.Objects[ref] = model.Seen{Ref: ref, Ours: true}
	w.state.Policy.Status.Inventory = append(w.state.Policy.Status.Inventory, ref)
	if plan := w.next(); len(plan.Delete) > 0 || !slices.Contains(plan.Status.Inventory, ref) {
		t.Errorf("the plan is %+v", plan)
	}
	w.without("feature-discovery", "container-toolkit", "device-plugin")
	w.state.Policy.Deleting = true
	if plan := w.next(); len(plan.Delete) != 1 || plan.Delete[0].Ref != ref {
		t.Errorf("deleted is %+v", plan.Delete)
	}
}

func TestNothingIsPrunedWhileValuesAreRefused(t *testing.T) {
	w := healthy(1)
	w.publish(t, w.next())
	w.state.Policy.Refused, w.stages = "no", nil
	plan := w.next()
	if len(plan.Delete) > 0 || len(plan.Status.Inventory) != 6 {
		t.Errorf("deleted is %+v, the inventory %v", plan.Delete, plan.Status.Inventory)
	}
}

func TestAPolicyWhoseValuesAreRefusedCanBeDeleted(t *testing.T) {
	w := healthy(1)
	w.publish(t, w.next())
	w.state.Policy.Refused, w.state.Policy.Deleting, w.stages = "no", true, nil
	plan := w.next()
	if len(plan.Delete) == 0 {
		t.Error("nothing is deleted")
	}
	if c := plan.Status.Conditions[0]; c.Reason != model.ReasonDeleting {
		t.Errorf("the condition is %+v", c)
	}
	w.publish(t, plan)
	w.state.Nodes[0].Allocatable = map[string]int64{"nvidia.com/gpu": 0}
	if plan := w.next(); len(plan.Events) > 0 || plan.Status.Conditions[2].Status != "False" {
		t.Errorf("agents that end are reported: %+v, %+v", plan.Events, plan.Status.Conditions)
	}
}

// A chart of a later release can have a later apiVersion of a kind: the object is the same.
func TestAnObjectWithAnotherVersionIsTheSame(t *testing.T) {
	old := model.Ref{APIVersion: "apps/v1beta2", Kind: "DaemonSet", Namespace: "gpu-operator-resources", Name: "device-plugin"}
	for name, before := range map[string]func(w *world){
		"it is applied":            func(*world) {},
		"it has to be applied yet": func(w *world) { delete(w.state.Objects, daemonSetRef("device-plugin")) },
		"it waits for another stage": func(w *world) {
			w.without("container-toolkit")
			delete(w.state.Objects, daemonSetRef("device-plugin"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy(3)
			ref := daemonSetRef("device-plugin")
			w.state.Policy.Status.Inventory = slices.DeleteFunc(w.state.Policy.Status.Inventory, func(r model.Ref) bool { return r == ref })
			// A process that was killed can have listed both.
			w.state.Policy.Status.Inventory = append(w.state.Policy.Status.Inventory, old, old)
			w.state.Objects[old] = model.Seen{Ref: old, UID: "u", Ours: true}
			before(w)
			plan := w.next()
			if len(plan.Delete) > 0 {
				t.Errorf("it is deleted: %v", plan.Delete)
			}
			if slices.Contains(plan.Status.Inventory, old) || !slices.Contains(plan.Status.Inventory, ref) || len(plan.Status.Inventory) != 6 {
				t.Errorf("the inventory is %v", plan.Status.Inventory)
			}
			w.publish(t, plan)
			w.stages = w.stages[:2]
			w.state.Objects[ref] = model.Seen{Ref: ref, UID: "u", Ours: true}
			if plan := w.next(); len(plan.Delete) != 1 || plan.Delete[0].Ref != ref {
				t.Errorf("deleted is %v once the stage has left", plan.Delete)
			}
		})
	}
}
