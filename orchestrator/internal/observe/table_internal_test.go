package observe

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// A pass is needed only after a change that it can see.
func TestTableSignalsChanges(t *testing.T) {
	pod := func(version string, change func(*corev1.Pod)) *corev1.Pod {
		p := testPod(change)
		p.ResourceVersion = version
		return p
	}
	isReady := func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionTrue) }
	notReady := func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionFalse) }
	o := New(nil, nil)
	pods := newTable(o, "pods", PodOf)
	for i, step := range []struct {
		change  func() error
		signals bool
		rows    int
	}{
		{func() error { return pods.Replace(nil, "1") }, true, 0},
		{func() error { return pods.Add(pod("2", isReady)) }, false, 0},
		{func() error { return pods.Update(pod("3", notReady)) }, true, 1},
		{func() error { return pods.Update(pod("4", notReady)) }, false, 1},
		{func() error { return pods.Update(pod("5", isReady)) }, true, 0},
		{func() error { return pods.Update(pod("6", notReady)) }, true, 1},
		{func() error { return pods.Delete(pod("7", notReady)) }, true, 0},
		{func() error { return pods.Delete(pod("8", notReady)) }, false, 0},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if signals := pace.Drain(o.Changed); signals != step.signals || len(pods.rows()) != step.rows {
			t.Errorf("step %d: signals %t, %d rows", i, signals, len(pods.rows()))
		}
	}
	if err := pods.Add(pod("9", notReady)); err != nil {
		t.Fatal(err)
	}
	old := pods.rows()[0]
	if err := pods.Update(pod("10", notReady)); err != nil {
		t.Fatal(err)
	}
	pods.drop(old)
	if len(pods.rows()) != 1 {
		t.Error("a row was dropped after it had been replaced")
	}
	pods.drop(pods.rows()[0])
	if len(pods.rows()) != 0 {
		t.Error("a row was not dropped")
	}
}

// The response to an apply counts until the watch has passed its version.
func TestStateHasAppliedObjects(t *testing.T) {
	object := func(version, manager string) *unstructured.Unstructured {
		o := model.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "agents", Name: "c"}.Object()
		o.SetResourceVersion(version)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}})
		return o
	}
	ref := model.RefOf(object("", ""))
	for name, tc := range map[string]struct {
		manager, observed string
		listed, want      bool
	}{
		"not observed yet": {model.FieldManager, "4", false, true},
		"observed":         {model.FieldManager, "6", true, true},
		"deleted since":    {model.FieldManager, "6", false, false},
		"of another program, so that no watch has it": {"helm", "6", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := New(nil, nil)
			o.nodes = newTable(o, "nodes", func(*corev1.Node) *model.Node { return nil })
			configMaps := newTable(o, "configmaps", func(in metav1.Object) *seen { return newSeen(ref, in) })
			o.objects[scopeOf(ref)] = configMaps
			var list []any
			if tc.listed {
				list = append(list, object("5", tc.manager))
			}
			if err := configMaps.Replace(list, tc.observed); err != nil {
				t.Fatal(err)
			}
			o.Applied(object("5", tc.manager), "hash")
			got, there := o.State(model.Policy{}, time.Now()).Objects[ref]
			if there != tc.want || there && got.Applied != "hash" {
				t.Errorf("there: %t, %+v", there, got)
			}
		})
	}
}
