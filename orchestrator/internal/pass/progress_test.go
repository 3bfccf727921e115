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
		"no pod is there yet": {func(*world) {}, 0, model.Progressing, model.ReasonNoFailure, "works on 0 of 2000 nodes, waiting on 2000: 2000 have no pod yet"},
		"all pods start": {
			func(w *world) { w.begins("device-plugin", starts, 0, 2000) }, 0, model.Progressing, model.ReasonNoFailure, "works on 0 of 2000 nodes, waiting on 2000: the pods are starting",
		},
		"one has failed, and the others start": {
			func(w *world) { w.begins("device-plugin", pull, 0, 1); w.begins("device-plugin", starts, 1, 2000) },
			0, model.Degraded, model.ReasonNodesFailed, "works on 0 of 2000 nodes, failed on 1, waiting on 1999: ImagePullBackOff on n0000",
		},
		"one has failed, and the others have no pod yet": {
			func(w *world) { w.begins("device-plugin", pull, 0, 1) },
			0, model.Degraded, model.ReasonNodesFailed, "works on 0 of 2000 nodes, failed on 1, waiting on 1999: ImagePullBackOff on n0000",
		},
		"all have failed": {
			func(w *world) { w.begins("device-plugin", pull, 0, 2000) }, 0, model.Failed, model.ReasonStageFailed, "works on 0 of 2000 nodes, failed on 2000: ImagePullBackOff",
		},
		"a pull has failed for a moment": {
			func(w *world) {
				w.begins("device-plugin", model.Pod{Phase: "Pending", Reason: "ErrImagePull", Since: noon().Add(-time.Second)}, 0, 2000)
			}, 0, model.Progressing, model.ReasonNoFailure, "works on 0 of 2000 nodes, waiting on 2000: the pods are starting",
		},
		"one has failed, and the others have waited for too long": {
			func(w *world) {
				w.begins("device-plugin", pull, 0, 1)
				w.begins("device-plugin", model.Pod{Phase: "Pending", Since: noon().Add(-time.Hour)}, 1, 2000)
			}, 0, model.Failed, model.ReasonStageFailed, "works on 0 of 2000 nodes, failed on 2000",
		},
		"some are ready, and the others start": {
			func(w *world) { w.begins("device-plugin", starts, 3, 2000) }, 3, model.Progressing, model.ReasonNoFailure, "works on 3 of 2000 nodes, waiting on 1997",
		},
		"some are ready, one has failed, and the others start": {
			func(w *world) { w.begins("device-plugin", pull, 3, 4); w.begins("device-plugin", starts, 4, 2000) },
			3, model.Degraded, model.ReasonNodesFailed, "works on 3 of 2000 nodes, failed on 1, waiting on 1996: ImagePullBackOff on n0003",
		},
		"some are ready, and the others have failed": {
			func(w *world) { w.begins("device-plugin", pull, 3, 2000) }, 3, model.Degraded, model.ReasonNodesFailed,
			"works on 3 of 2000 nodes, failed on 1997: ImagePullBackOff on n0003, n0004, n0005 and 1994 more",
		},
		"some have the version before": {
			func(w *world) { w.daemonSet("device-plugin").Updated = 5 }, 2000, model.Progressing, model.ReasonNoFailure, "works on 2000 of 2000 nodes, 5 have the current version",
		},
		"all are ready": {func(*world) {}, 2000, model.Ready, model.ReasonNoFailure, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy(2000)
			w.daemonSet("device-plugin").Ready = tc.ready
			w.stage("dcgm-exporter", 2000)
			w.changes("dcgm-exporter")
			w.stages[3].Needs = []string{"device-plugin"}
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
				t.Errorf("the stage that needs it starts: %t, with %d ready nodes", open, got.Ready)
			}
			if plan.Status.State != model.StateReady {
				t.Errorf("the policy is %s, although the GPUs of all nodes can be used", plan.Status.State)
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

// TestRollOutsAreNoIncident replaces the pods of a stage on a cluster with one node and with more. The
// kubelet offers no GPUs while the device plugin restarts, and GPUReady is False.
func TestRollOutsAreNoIncident(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		w := healthy(nodes)
		w.publish(t, w.next())
		for second := range 14 {
			w.state.Now = noon().Add(time.Duration(second) * time.Second)
			n := *w.state.Nodes[0]
			n.Allocatable, n.ShortSince = map[string]int64{"nvidia.com/gpu": 0}, noon()
			n.GPUReady, n.Reason, n.Since = "False", "PluginNotReady", noon()
			w.state.Nodes[0], w.state.Pods = &n, nil
			*w.daemonSet("device-plugin") = model.DaemonSet{Current: true, Desired: nodes, Updated: 1, Ready: nodes - 1}
			w.state.Pods = []*model.Pod{{
				Namespace: "gpu-operator-resources", Owner: "device-plugin", Name: "old", Node: n.Name, Phase: "Succeeded", Reason: "Completed",
				Deleting: true, Since: noon(),
			}}
			plan := w.next()
			if c := plan.Status.Conditions; plan.Status.State != model.StateReady || len(plan.Events) > 0 || c[1].Status != "True" || c[2].Status != "False" || plan.Again == 0 {
				t.Errorf("after %d seconds, the policy is %s, with the conditions %+v, and the events %+v", second, plan.Status.State, c, plan.Events)
			}
			w.publish(t, plan)
		}
		w.state.Now = noon().Add(time.Minute)
		if plan := w.next(); len(plan.Events) != 1 || !plan.Events[0].Warning {
			t.Errorf("after a minute, the events are %+v", plan.Events)
		}
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
