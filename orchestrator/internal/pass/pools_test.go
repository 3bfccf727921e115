package pass_test

import (
	"slices"
	"strings"
	"testing"

	"outrigger.dev/orchestrator/internal/model"
)

// TestPoolsDoNotWaitForEachOther breaks a stage in one pool: the others go on.
func TestPoolsDoNotWaitForEachOther(t *testing.T) {
	w := healthy(2)
	w.stage("device-plugin/a100", 1)
	w.stage("container-toolkit/h100", 1)
	w.stage("device-plugin/h100", 1)
	w.stages[3].Pool, w.stages[4].Pool, w.stages[5].Pool = "a100", "h100", "h100"
	for i := 3; i < 6; i++ {
		w.stages[i].NodeSelector = map[string]string{"pool": w.stages[i].Pool}
	}
	w.stages[5].Needs = []string{"container-toolkit"}
	w.breaks("container-toolkit", 2, model.Pod{Phase: "Running", Reason: "CrashLoopBackOff"})
	for _, name := range []string{"device-plugin", "device-plugin/a100", "device-plugin/h100"} {
		w.changes(name)
	}
	if got, want := applied(w.next()), []string{"device-plugin/a100 DaemonSet", "device-plugin/h100 DaemonSet"}; !slices.Equal(got, want) {
		t.Errorf("applied %q, want %q", got, want)
	}
}

// TestOverlappingPools has a node with the labels of two pools: only the second one stops.
func TestOverlappingPools(t *testing.T) {
	w := healthy(2)
	for i, pool := range []string{"a100", "edge"} {
		w.stage("device-plugin/"+pool, 1)
		w.stages[3+i].Pool = pool
	}
	w.stages[3].NodeSelector = map[string]string{"gpu": "a100"}
	w.stages[4].NodeSelector = map[string]string{"zone": "edge"}
	w.state.Nodes[0].Labels["gpu"], w.state.Nodes[1].Labels["zone"] = "a100", "edge"
	w.publish(t, w.next())
	for _, name := range []string{"device-plugin", "device-plugin/a100", "device-plugin/edge"} {
		w.changes(name)
	}
	w.state.Nodes[1].Labels["gpu"] = "a100"
	plan := w.next()
	if got, want := applied(plan), []string{"device-plugin DaemonSet", "device-plugin/a100 DaemonSet"}; !slices.Equal(got, want) {
		t.Errorf("applied %q, want %q", got, want)
	}
	if got := stage(t, plan, "device-plugin/edge"); got.State != model.Failed || !strings.Contains(got.Message, "pools a100 and edge overlap") {
		t.Errorf("the stage is %+v", got)
	}
	w.state.Nodes[1].Labels["zone"] = "core"
	if got := applied(w.next()); len(got) != 3 {
		t.Errorf("applied %q once the labels are mended", got)
	}
}
