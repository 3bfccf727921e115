package pass_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// TestPoolsDoNotWaitForEachOther breaks a stage in one pool: the others go on.
func TestPoolsDoNotWaitForEachOther(t *testing.T) {
	w := healthy(2)
	w.stage("device-plugin/a100", 1)
	w.stage("container-toolkit/h100", 1)
	w.stage("device-plugin/h100", 1)
	w.stages[3].Pool, w.stages[4].Pool, w.stages[5].Pool = "a100", "h100", "h100"
	w.stages[5].Needs = []string{"container-toolkit"}
	w.breaks("container-toolkit", 2, model.Pod{Phase: "Running", Reason: "CrashLoopBackOff"})
	for _, name := range []string{"device-plugin", "device-plugin/a100", "device-plugin/h100"} {
		w.changes(name)
	}
	if got, want := applied(w.next()), []string{"device-plugin/a100 DaemonSet", "device-plugin/h100 DaemonSet"}; !slices.Equal(got, want) {
		t.Errorf("applied %q, want %q", got, want)
	}
}

// TestOverlappingPools has a node with the labels of two pools. It stays in the first one, and all
// others, and what leaves the policy, go on.
func TestOverlappingPools(t *testing.T) {
	w := healthy(3)
	for i, pool := range []string{"edge", "a100"} {
		w.stage("device-plugin/"+pool, 1)
		w.stages[3+i].Pool = pool
	}
	// The stages of a pool may come before those of the pools before it.
	w.state.Policy.Values = map[string]any{"pools": []any{
		map[string]any{"name": "a100", "nodeSelector": map[string]any{"gpu": "a100"}},
		map[string]any{"name": "edge", "nodeSelector": map[string]any{"zone": "edge"}},
	}}
	w.state.Nodes[0].Labels["gpu"], w.state.Nodes[1].Labels["zone"], w.state.Nodes[2].Labels["zone"] = "a100", "edge", "edge"
	w.publish(t, w.next())
	for _, name := range []string{"device-plugin", "device-plugin/a100", "device-plugin/edge"} {
		w.changes(name)
	}
	left := model.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "gpu-operator-resources", Name: "left"}
	w.state.Objects[left] = model.Seen{Ref: left, Ours: true}
	w.state.Policy.Status.Inventory = append(w.state.Policy.Status.Inventory, left)
	w.state.Nodes[1].Labels["gpu"] = "a100"
	w.state.Nodes = append(w.state.Nodes, &model.Node{Name: "no GPU", Labels: map[string]string{"gpu": "a100", "zone": "edge"}})
	plan := w.next()
	if got := applied(plan); len(got) != 3 {
		t.Errorf("applied %q, want the stages of all pools", got)
	}
	if len(plan.Delete) != 1 || plan.Delete[0].Ref != left {
		t.Errorf("deleted is %+v", plan.Delete)
	}
	if len(plan.Status.Problems) != 1 {
		t.Fatalf("the problems are %+v", plan.Status.Problems)
	}
	p := plan.Status.Problems[0]
	if p.Cause != "PoolsOverlap" || !slices.Equal(p.Examples, []string{"n0001"}) || !strings.Contains(p.Message, "pools a100 and edge") ||
		!strings.Contains(p.Message, "stays in a100") || p.Fix == "" {
		t.Errorf("the problem is %+v", p)
	}
	if c := meta.FindStatusCondition(plan.Status.Conditions, model.ConditionDegraded); c.Reason != model.ReasonNodesFailed {
		t.Errorf("Degraded is %+v", c)
	}
	refused := *w
	refused.state.Policy.Refused = "unknown key"
	if got := refused.next().Status.Problems; len(got) > 0 {
		t.Errorf("the problems of rejected values are %+v", got)
	}
	w.publish(t, plan)
	w.state.Now = noon().Add(time.Hour)
	if again := w.next(); !same(t, published(t, again.Status), w.state.Policy.Status) {
		t.Errorf("an hour later, the status is %+v", again.Status)
	}
	w.state.Nodes[1].Labels["zone"] = "core"
	if got := w.next().Status.Problems; len(got) > 0 {
		t.Errorf("the problems are %+v once the labels are mended", got)
	}
}

// TestAPoolIsValidatedOnItsOwnNodes has a node that two pools select, and a node that no pool selects.
func TestAPoolIsValidatedOnItsOwnNodes(t *testing.T) {
	w := healthy(3)
	var list []any
	for i, pool := range []string{"a100", "edge"} {
		w.stage("device-plugin/"+pool, 1)
		w.stages[3+i].Pool = pool
		list = append(list, map[string]any{"name": pool, "nodeSelector": map[string]any{pool: "true"}})
	}
	w.state.Policy.Values = map[string]any{"pools": list}
	for _, i := range []int{2, 3, 4} {
		w.stages[i].Validations = []model.Check{{Name: w.stages[i].Name, Revision: "1"}}
	}
	w.state.Nodes[0].Labels["a100"], w.state.Nodes[0].Labels["edge"], w.state.Nodes[1].Labels["edge"] = "true", "true", "true"
	got := map[string][]string{}
	pass.Next(w.stages, w.state, func(c model.Check, s model.State, last model.ValidationStatus) (
		model.ValidationStatus, []*unstructured.Unstructured, []model.Seen, time.Duration,
	) {
		for _, n := range s.Nodes {
			got[c.Name] = append(got[c.Name], n.Name)
		}
		return last, nil, nil, 0
	})
	want := map[string][]string{"device-plugin/a100": {"n0000"}, "device-plugin/edge": {"n0001"}, "device-plugin": {"n0002"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the validations choose from %v, want %v", got, want)
	}
}
