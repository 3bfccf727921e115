package pass_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"outrigger.dev/orchestrator/internal/model"
)

// TestProgressIsNoFailure installs on many nodes, whose pods are at different steps.
func TestProgressIsNoFailure(t *testing.T) {
	pull := model.Pod{Phase: "Pending", Reason: "ErrImagePull", Message: "not found"}
	starts := model.Pod{Phase: "Pending", Reason: "ContainerCreating"}
	for name, tc := range map[string]struct {
		change func(*world)
		// ready is the number of ready nodes.
		ready int
		state string
		// degraded is the reason of the condition Degraded.
		degraded string
		message  string
	}{
		"no pod is there yet": {func(*world) {}, 0, model.Progressing, model.ReasonNoFailure, "0 of 2000 nodes"},
		"all pods start": {
			func(w *world) { w.begins("device-plugin", starts, 0, 2000) }, 0, model.Progressing, model.ReasonNoFailure, "the pods are starting",
		},
		"one has failed, and the others start": {
			func(w *world) { w.begins("device-plugin", pull, 0, 1); w.begins("device-plugin", starts, 1, 2000) },
			0, model.Progressing, model.ReasonNodesFailed, "0 of 2000 nodes are ready with the current version, 1999 wait and 1 has failed: ImagePullBackOff on n0000",
		},
		"one has failed, and the others have no pod yet": {
			func(w *world) { w.begins("device-plugin", pull, 0, 1) },
			0, model.Progressing, model.ReasonNodesFailed, "1999 wait and 1 has failed: ImagePullBackOff on n0000",
		},
		"all have failed": {
			func(w *world) { w.begins("device-plugin", pull, 0, 2000) }, 0, model.Failed, model.ReasonStageFailed, "0 of 2000 nodes are ready with the current version: ImagePullBackOff",
		},
		"one has failed, and the others have waited for too long": {
			func(w *world) {
				w.begins("device-plugin", pull, 0, 1)
				w.begins("device-plugin", model.Pod{Phase: "Pending", Since: noon().Add(-time.Hour)}, 1, 2000)
			}, 0, model.Failed, model.ReasonStageFailed, "0 of 2000 nodes are ready",
		},
		"some are ready, and the others start": {
			func(w *world) { w.begins("device-plugin", starts, 3, 2000) }, 3, model.RollingOut, model.ReasonNoFailure, "3 of 2000 nodes are ready",
		},
		"some are ready, one has failed, and the others start": {
			func(w *world) { w.begins("device-plugin", pull, 3, 4); w.begins("device-plugin", starts, 4, 2000) },
			3, model.RollingOut, model.ReasonNodesFailed, "3 of 2000 nodes are ready: ImagePullBackOff on n0003",
		},
		"some are ready, and the others have failed": {
			func(w *world) { w.begins("device-plugin", pull, 3, 2000) }, 3, model.Degraded, model.ReasonNodesFailed,
			"3 of 2000 nodes are ready: ImagePullBackOff on n0003, n0004, n0005 and 1994 more",
		},
		"all are ready": {func(*world) {}, 2000, model.Ready, model.ReasonNoFailure, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy(2000)
			w.daemonSet("device-plugin").Ready = tc.ready
			w.stage("dcgm-exporter", 2000)
			w.changes("dcgm-exporter")
			tc.change(w)
			plan := w.next()
			got := stage(t, plan, "device-plugin")
			if got.State != tc.state || !strings.Contains(got.Message, tc.message) {
				t.Errorf("the stage is %s, want %s: %s", got.State, tc.state, got.Message)
			}
			if c := meta.FindStatusCondition(plan.Status.Conditions, model.ConditionDegraded); c.Reason != tc.degraded {
				t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
			}
			if open := len(plan.Apply) > 0; open != (got.Ready > 0) {
				t.Errorf("the next stage starts: %t, with %d ready nodes", open, got.Ready)
			}
		})
	}
}

// begins gives the nodes from first up to end a pod that is not ready.
func (w *world) begins(stage string, p model.Pod, first, end int) {
	for i := first; i < end; i++ {
		p := p
		p.Namespace, p.Owner, p.Node = "gpu-operator-resources", stage, w.state.Nodes[i].Name
		p.Name = stage + "-" + p.Node
		if p.Since.IsZero() {
			p.Since = noon().Add(-time.Minute)
		}
		w.state.Pods = append(w.state.Pods, &p)
	}
}

// TestNodesThatWaitForAPod has a last stage of which most nodes have no pod yet. Feature discovery
// has run for longer, and has said so for long.
func TestNodesThatWaitForAPod(t *testing.T) {
	for reason, want := range map[string]string{"PluginNotReady": model.ReasonNoFailure, "CUDAStale": model.ReasonNodesFailed} {
		w := healthy(5)
		w.daemonSet("device-plugin").Ready = 1
		w.reports(4, reason, "it has not been written yet")
		for i := range w.state.Nodes {
			w.state.Nodes[i].Since = noon().Add(-time.Hour)
		}
		plan := w.next()
		if c := meta.FindStatusCondition(plan.Status.Conditions, model.ConditionDegraded); c.Reason != want {
			t.Errorf("while nodes say %s, Degraded is %s: %s", reason, c.Reason, c.Message)
		}
		w.daemonSet("device-plugin").Ready = 5
		if got := w.next().Status; len(got.Problems) != 1 || got.Problems[0].Cause != reason {
			t.Errorf("once all have a pod, the problems are %+v, want %s", got.Problems, reason)
		}
	}
}

// TestRollOutEndsOnce tells that a stage is ready when the first node is, and not again for each
// node that starts anew later.
func TestRollOutEndsOnce(t *testing.T) {
	w := healthy(3)
	w.daemonSet("device-plugin").Ready = 1
	plan := w.next()
	c := meta.FindStatusCondition(plan.Status.Conditions, model.ConditionReady)
	if plan.Status.State != model.StateReady || !strings.Contains(c.Message, "stage device-plugin: 1 of 3 nodes are ready") {
		t.Errorf("the policy is %s: %s", plan.Status.State, c.Message)
	}
	w.publish(t, plan)
	for _, ready := range []int{3, 2, 3} {
		w.daemonSet("device-plugin").Ready = ready
		plan = w.next()
		if len(plan.Events) > 0 || plan.Status.State != model.StateReady {
			t.Errorf("with %d ready nodes, the policy is %s, and the events %+v", ready, plan.Status.State, plan.Events)
		}
		w.publish(t, plan)
	}
}

// TestRestartDuringARollOut starts a new process, which knows of nothing that it has applied.
func TestRestartDuringARollOut(t *testing.T) {
	w := healthy(3)
	w.daemonSet("device-plugin").Ready = 1
	w.publish(t, w.next())
	for ref, seen := range w.state.Objects {
		seen.Applied = ""
		w.state.Objects[ref] = seen
	}
	plan := w.next()
	if len(plan.Events) > 0 || !same(t, published(t, plan.Status), w.state.Policy.Status) {
		t.Errorf("after a restart, the status is %+v, and the events %+v", plan.Status, plan.Events)
	}
}
