package pass_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// TestScale has 5,000 nodes of which 500 never get ready: the rest rolls out, and the status
// stays small whatever the pods say.
func TestScale(t *testing.T) {
	w := healthy(5000)
	w.publish(t, w.next())
	for i := range 20 {
		w.breaks("device-plugin", 25, model.Pod{Phase: "Failed", Reason: fmt.Sprintf("Reason%d", i), Message: string(make([]byte, 5000))})
	}
	w.daemonSet("device-plugin").Ready = 4500
	w.stage("dcgm-exporter", 5000)
	w.stages[3].Needs = []string{"device-plugin"}
	w.changes("dcgm-exporter")
	plan := w.next()
	if got := applied(plan); !slices.Equal(got, []string{"dcgm-exporter DaemonSet"}) {
		t.Errorf("applied %q", got)
	}
	if n := len(plan.Status.Problems); n != 10 {
		t.Errorf("%d problems, want 10", n)
	}
	for _, p := range plan.Status.Problems {
		if len(p.Examples) > 10 || len(p.Message) > 500 {
			t.Errorf("a problem is too long: %+v", p)
		}
	}
	if size := len(encode(t, plan.Status)); size > 32<<10 {
		t.Errorf("the status has %d bytes", size)
	}
}

// TestOrderDoesNotMatter gives the same cluster in different orders.
func TestOrderDoesNotMatter(t *testing.T) {
	w := healthy(20)
	for i, reason := range []string{"CrashLoopBackOff", "ImagePullBackOff", "CrashLoopBackOff"} {
		w.breaks([]string{"device-plugin", "container-toolkit", "feature-discovery"}[i], 15, model.Pod{Phase: "Running", Reason: reason})
	}
	for i := range w.state.Pods {
		w.state.Pods[i].Message = fmt.Sprintf("message %d", i)
	}
	w.reports(18, "DriverHangs", "hangs")
	for i := range w.state.Nodes {
		w.state.Nodes[i].Message = fmt.Sprintf("message of node %d", i)
	}
	want := encode(t, w.next().Status)
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		rnd.Shuffle(len(w.state.Pods), func(i, j int) { w.state.Pods[i], w.state.Pods[j] = w.state.Pods[j], w.state.Pods[i] })
		rnd.Shuffle(len(w.state.Nodes), func(i, j int) { w.state.Nodes[i], w.state.Nodes[j] = w.state.Nodes[j], w.state.Nodes[i] })
		if got := encode(t, w.next().Status); got != want {
			t.Fatalf("the status depends on the order:\n%s\n%s", want, got)
		}
	}
}

// TestPatience has a container that starts for longer and longer.
func TestPatience(t *testing.T) {
	w := healthy(2)
	w.breaks("device-plugin", 1, model.Pod{Phase: "Pending", Reason: "ContainerCreating", Since: noon()})
	w.publish(t, w.next())
	w.state.Now = noon().Add(4 * time.Minute)
	plan := w.next()
	if got := stage(t, plan, "device-plugin"); got.Waiting != 1 || got.Failed != 0 || plan.Again != 6*time.Minute || len(plan.Status.Problems) > 0 {
		t.Errorf("after 4 minutes: %+v, problems %v, again in %s", got, plan.Status.Problems, plan.Again)
	}
	w.state.Now = noon().Add(10 * time.Minute)
	plan = w.next()
	if got := stage(t, plan, "device-plugin"); got.Waiting != 0 || got.Failed != 1 || plan.Again != 0 || len(plan.Status.Problems) != 1 {
		t.Errorf("after 10 minutes: %+v, problems %v, again in %s", got, plan.Status.Problems, plan.Again)
	}
}

func TestEventsTellWhatChanged(t *testing.T) {
	w := healthy(2)
	var got []string
	step := func(name string, change func()) {
		change()
		plan := w.next()
		for _, e := range plan.Events {
			got = append(got, name+": "+e.Reason)
		}
		w.publish(t, plan)
		if again := w.next(); len(again.Events) > 0 {
			t.Errorf("%s: told again: %v", name, again.Events)
		}
	}
	step("install", func() {})
	crash := model.Pod{Phase: "Running", Reason: "CrashLoopBackOff", Since: noon().Add(-time.Second)}
	step("crash", func() { w.breaks("device-plugin", 1, crash) })
	step("crash for long", func() { w.state.Now = noon().Add(time.Minute) })
	step("run between two crashes", func() { w.state.Pods[0].Ready, w.state.Pods[0].Loops = true, noon().Add(time.Hour) })
	step("all crash", func() { w.breaks("device-plugin", 2, crash) })
	step("another stage crashes", func() { w.breaks("container-toolkit", 1, crash) })
	step("a node loses its driver", func() {
		w.reports(1, "DriverNotFound", "no driver")
		w.state.Nodes[0].Allocatable = map[string]int64{"nvidia.com/gpu": 0}
	})
	step("heal", func() {
		w.state.Pods = nil
		w.daemonSet("device-plugin").Ready, w.daemonSet("container-toolkit").Ready = 2, 2
		w.state.Nodes[0].GPUReady, w.state.Nodes[0].Allocatable = "True", w.state.Nodes[0].Capacity
	})
	want := []string{
		"install: Ready", "crash for long: Degraded", "another stage crashes: Degraded", "a node loses its driver: Degraded", "heal: Recovered",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}

// A bad image of the device plugin makes the node unusable, and fails a second later: one incident.
// After the repair, the kubelet offers the GPUs some seconds after the pod is ready.
func TestABadImageIsOneIncident(t *testing.T) {
	w := healthy(1)
	w.publish(t, w.next())
	n := w.state.Nodes[0]
	n.GPUReady, n.Reason, n.Since, n.Allocatable, n.ShortSince = "False", "PluginNotReady", noon(), map[string]int64{"nvidia.com/gpu": 0}, noon()
	w.breaks("device-plugin", 1, model.Pod{Phase: "Pending", Reason: "ImagePullBackOff", Since: noon().Add(2 * time.Second)})
	var got []string
	for second := range 60 {
		w.state.Now = noon().Add(time.Duration(second) * time.Second)
		switch second {
		case 30:
			w.state.Pods[0] = &model.Pod{Namespace: w.state.Pods[0].Namespace, Name: "new", Node: n.Name, Owner: "device-plugin", Phase: "Pending", Since: w.state.Now}
		case 35:
			w.state.Pods[0] = &model.Pod{Namespace: w.state.Pods[0].Namespace, Name: "new", Node: n.Name, Owner: "device-plugin", Phase: "Running", Ready: true, Since: w.state.Now}
			w.daemonSet("device-plugin").Ready = 1
		case 50:
			n.GPUReady, n.Allocatable = "True", n.Capacity
		}
		plan := w.next()
		for _, e := range plan.Events {
			got = append(got, fmt.Sprintf("%d: %s", second, e.Reason))
		}
		w.publish(t, plan)
	}
	if want := []string{"17: StageFailed", "30: Recovered", "50: Ready"}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
}

// The namespace of the agents is deleted: the API server rejects the objects of one stage after the other.
func TestRejectedStagesAreOneIncident(t *testing.T) {
	w := healthy(1)
	w.publish(t, w.next())
	var got []string
	for _, stage := range []string{"container-toolkit", "device-plugin", ""} {
		if stage == "" {
			clear(w.state.Failures)
		} else {
			w.changes(stage)
			w.state.Failures[daemonSetRef(stage)] = "apply DaemonSet " + stage + ": forbidden"
		}
		plan := w.next()
		for _, e := range plan.Events {
			got = append(got, stage+": "+e.Reason)
		}
		w.publish(t, plan)
	}
	if len(got) != 2 || got[0] != "container-toolkit: StageFailed" || got[1] != ": Recovered" {
		t.Errorf("the events are %q", got)
	}
}

func TestNodesThatAreOptedOutAreNoIncident(t *testing.T) {
	w := healthy(2)
	w.publish(t, w.next())
	for i, n := range w.state.Nodes {
		n.Labels["nvidia.com/gpu.deploy.operands"], n.GPUReady = "false", ""
		n.Allocatable = map[string]int64{"nvidia.com/gpu": 0}
		plan := w.next()
		if len(plan.Events) > 0 || plan.Status.Conditions[2].Status != "False" {
			t.Errorf("with %d nodes, the events are %+v, and the conditions %+v", i+1, plan.Events, plan.Status.Conditions)
		}
		w.publish(t, plan)
	}
}

func TestTransitionTimesStay(t *testing.T) {
	w := healthy(1)
	w.publish(t, w.next())
	w.state.Now = noon().Add(time.Hour)
	w.breaks("device-plugin", 1, model.Pod{Phase: "Running", Reason: "CrashLoopBackOff"})
	for _, c := range w.next().Status.Conditions[2:] {
		if !c.LastTransitionTime.Time.Equal(w.state.Now) {
			t.Errorf("%s changed at %s, want %s", c.Type, c.LastTransitionTime, w.state.Now)
		}
	}
	w.publish(t, w.next())
	w.state.Now = noon().Add(2 * time.Hour)
	for _, c := range w.next().Status.Conditions[2:] {
		if !c.LastTransitionTime.Time.Equal(noon().Add(time.Hour)) {
			t.Errorf("%s says %s after an hour without a change", c.Type, c.LastTransitionTime)
		}
	}
}

func TestIgnored(t *testing.T) {
	got := pass.Ignored(model.Policy{Name: "b", Generation: 3}, "a", noon())
	content, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, string(content)+"\n", "ignored.json")
}

// FuzzMessages gives foreign text to what people are told.
func FuzzMessages(f *testing.F) {
	f.Add("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: no`, "Pending")
	f.Add("CrashLoopBackOff", "back-off 5m0s restarting failed container=", "Running")
	f.Add("\x1b[2J", "\xff\n\r", "")
	f.Fuzz(func(t *testing.T, reason, message, phase string) {
		w := healthy(1)
		w.breaks("device-plugin", 1, model.Pod{Phase: phase, Reason: reason, Message: message})
		w.reports(1, reason, message)
		plan := w.next()
		w.publish(t, plan)
		if !same(t, w.next().Status, w.state.Policy.Status) {
			t.Errorf("the status changes without a cause: %+v", plan.Status)
		}
		for _, c := range plan.Status.Conditions {
			if len(c.Message) > 1000 {
				t.Errorf("a message has %d bytes", len(c.Message))
			}
		}
	})
}
