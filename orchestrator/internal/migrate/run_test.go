package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
)

const devicePlugin = "nvidia.com/gpu.deploy.device-plugin"

// label returns the value of a label of a node.
func (w *world) label(node, label string) string {
	w.Helper()
	return w.Get(nodeRef(node)).GetLabels()[label]
}

// TestHandOver hands all components over, one after the other, with an undo in the middle. A GPU pod keeps running, and
// the pods of both sides are never on a node at the same time.
func TestHandOver(t *testing.T) {
	w := newWorld(t, "a", "b")
	pod := w.gpuPod("a")
	r := w.runner()
	names := []string{"dcgm-exporter", "feature-discovery", "mig-manager", "device-plugin", "toolkit"}
	for _, name := range names {
		if err := w.hand(r, name, false); err != nil {
			t.Fatal(err)
		}
		if name != "device-plugin" {
			continue
		}
		if err := w.hand(r, name, true); err != nil {
			t.Fatal(err)
		}
		if got := w.running(theirNamespace, "b"); !strings.Contains(got, "nvidia-device-plugin-daemonset") || w.label("b", devicePlugin) != migrate.Theirs {
			t.Errorf("after the undo, node b runs %s", got)
		}
		if err := w.hand(r, name, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range w.nodes {
		if got, want := w.running(theirNamespace, node), "nvidia-driver-daemonset nvidia-operator-validator"; got != want {
			t.Errorf("node %s runs %q of NVIDIA, want %q", node, got, want)
		}
		want := "outrigger-container-toolkit outrigger-dcgm-exporter outrigger-device-plugin outrigger-feature-discovery outrigger-mig-manager"
		if got := w.running(ourNamespace, node); got != want {
			t.Errorf("node %s runs %q of Outrigger, want %q", node, got, want)
		}
	}
	// A repetition has nothing to do.
	for _, name := range names {
		c, err := migrate.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if step, err := r.Step(t.Context(), c, false); err != nil || len(step.Nodes) > 0 || len(step.Done) != len(w.nodes) {
			t.Errorf("%s again: %+v, %v", name, step, err)
		}
	}
	if after := w.training(); after == nil || after.UID != pod.UID || after.DeletionTimestamp != nil {
		t.Error("the GPU pod has been deleted")
	}
	if w.mu.Lock(); len(w.overlaps) > 0 {
		t.Errorf("both sides had pods at the same time: %q", w.overlaps)
	}
	w.mu.Unlock()
}

// TestFailedHandOverIsUndone hands a component over that does not work in Outrigger. The first node goes back, and the
// other nodes are not touched.
func TestFailedHandOverIsUndone(t *testing.T) {
	w := newWorld(t, "a", "b")
	r := w.runner()
	r.Timeout = 3 * time.Second
	before := map[types.UID]bool{}
	for _, p := range w.podsOf(theirNamespace, "b") {
		before[p.UID] = true
	}
	for name, c := range map[string]struct {
		change, back func()
		want         string
	}{
		"pods that fail": {
			func() { w.broken[ourNamespace+"/outrigger-device-plugin"] = true }, func() { clear(w.broken) },
			"is not ready: CrashLoopBackOff: back-off",
		},
		"fewer GPUs":        {func() { w.offers[ourNamespace] = 7 }, func() { w.offers[ourNamespace] = 8 }, "the node offers 7 nvidia.com/gpu, and had 8"},
		"pods that stay on": {func() { w.held[theirNamespace+"/nvidia-device-plugin-daemonset"] = true }, func() { clear(w.held) }, "pods of NVIDIA's GPU Operator still run: gpu-operator/nvidia-device-plugin-daemonset-"},
	} {
		w.mu.Lock()
		c.change()
		w.mu.Unlock()
		if name == "pods that stay on" {
			// The pods end when the hand-over has been given up.
			r.Progress = func(format string, args ...any) {
				if strings.Contains(format, "failed") {
					w.mu.Lock()
					c.back()
					w.mu.Unlock()
				}
			}
		}
		err := w.hand(r, "device-plugin", false)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a has been given back to NVIDIA's GPU Operator") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		w.mu.Lock()
		c.back()
		w.mu.Unlock()
		agenttest.Poll(t, "NVIDIA's plugin", func() bool { return strings.Contains(w.running(theirNamespace, "a"), "nvidia-device-plugin-daemonset") })
		if w.label("a", devicePlugin) != migrate.Theirs {
			t.Errorf("%s: node a has %s", name, w.label("a", devicePlugin))
		}
	}
	for _, p := range w.podsOf(theirNamespace, "b") {
		if !before[p.UID] {
			t.Errorf("pod %s of node b is new", p.Name)
		}
	}
}

// TestOldReportsDoNotCount hands a component over while the kubelet still reports the GPUs of NVIDIA's plugin, and then none.
func TestOldReportsDoNotCount(t *testing.T) {
	w := newWorld(t, "a")
	r := w.runner()
	r.Timeout, r.Settle = 5*time.Second, time.Hour
	w.mu.Lock()
	w.silent, w.offers[ourNamespace] = true, 0
	w.mu.Unlock()
	r.Progress = func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.Contains(text, "it works") {
			w.mu.Lock()
			w.silent = false
			w.mu.Unlock()
		}
	}
	if err := w.hand(r, "device-plugin", false); err == nil || !strings.Contains(err.Error(), "the node offers 0 nvidia.com/gpu, and had 8") {
		t.Errorf("got %v", err)
	}
}

// TestNodesAreIndependent hands nodes over of which one keeps a pod, one is deleted, and one stops. The others do not wait
// for them, and have the new side.
func TestNodesAreIndependent(t *testing.T) {
	w := newWorld(t, "a", "deleted", "fine", "held", "stopped")
	const plugin = theirNamespace + "/nvidia-device-plugin-daemonset"
	hold := func(on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, node := range []string{"deleted", "held", "stopped"} {
			w.held[plugin+" "+node] = on
		}
	}
	hold(true)
	r := w.runner()
	limit := r.Timeout
	bad := sync.OnceFunc(func() {
		w.Delete(nodeRef("deleted"))
		w.status("stopped", false, 8)
	})
	r.Progress = func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		w.Log(text)
		switch {
		case strings.Contains(text, "failed on held"):
			hold(false)
			r.Timeout = limit
		case strings.Contains(text, "waits: ") && strings.Contains(text, "held: pods"):
			bad()
			if !strings.Contains(text, "deleted: ") && !strings.Contains(text, "fine: ") {
				r.Timeout = 0 // nothing else changes any more
			}
		}
	}
	err := w.hand(r, "device-plugin", false)
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "hand over device-plugin on held: not within") || !strings.Contains(err.Error(), "held has been given back") {
		t.Errorf("got %v", err)
	}
	for node, want := range map[string]string{"a": migrate.Ours, "fine": migrate.Ours, "held": migrate.Theirs, "stopped": migrate.Ours} {
		if got := w.label(node, devicePlugin); got != want {
			t.Errorf("node %s has %s, want %s", node, got, want)
		}
	}
	if got := w.running(ourNamespace, "fine"); got != "outrigger-device-plugin" {
		t.Errorf("node fine runs %q", got)
	}
}

// TestInterruptedHandOver ends a hand-over between both sides. It can be repeated, and undone.
func TestInterruptedHandOver(t *testing.T) {
	w := newWorld(t, "a")
	for _, undo := range []bool{false, true} {
		w.mu.Lock()
		w.held[theirNamespace+"/nvidia-device-plugin-daemonset"] = true
		w.mu.Unlock()
		ctx, cancel := context.WithCancelCause(t.Context())
		r := w.runner()
		r.Progress = func(format string, _ ...any) {
			if strings.Contains(format, "waits") {
				cancel(errors.New("interrupted"))
			}
		}
		c, err := migrate.Named("device-plugin")
		if err != nil {
			t.Fatal(err)
		}
		step, err := r.Step(ctx, c, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(ctx, step); err == nil || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(err.Error(), "--undo --only device-plugin") {
			t.Errorf("interrupted: %v", err)
		}
		if got := w.label("a", devicePlugin); got != migrate.Between {
			t.Errorf("after the interruption, the label is %q", got)
		}
		w.mu.Lock()
		clear(w.held)
		w.mu.Unlock()
		if err := w.hand(w.runner(), "device-plugin", !undo); err != nil {
			t.Fatal(err)
		}
		want := migrate.Theirs
		if undo {
			want = migrate.Ours
		}
		if got := w.label("a", devicePlugin); got != want {
			t.Errorf("the label is %q, want %q", got, want)
		}
	}
}

// TestDoneNodesAreVerified repeats a hand-over that ended before its check.
func TestDoneNodesAreVerified(t *testing.T) {
	w := newWorld(t, "a")
	w.mu.Lock()
	w.broken[ourNamespace+"/outrigger-device-plugin"] = true
	w.mu.Unlock()
	w.Patch(nodeRef("a"), "", map[string]any{"metadata": map[string]any{"labels": map[string]any{devicePlugin: migrate.Ours}}})
	r := w.runner()
	limit := r.Timeout
	r.Progress = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "is not ready: CrashLoopBackOff") {
			r.Timeout = 0
		}
	}
	if err := w.hand(r, "device-plugin", false); err == nil || !strings.Contains(err.Error(), "device-plugin of Outrigger does not work on a: not within") {
		t.Errorf("got %v", err)
	}
	if got := w.label("a", devicePlugin); got != migrate.Ours {
		t.Errorf("the node has %s", got)
	}
	w.mu.Lock()
	clear(w.broken)
	w.mu.Unlock()
	for _, p := range w.podsOf(ourNamespace, "a") {
		w.endPod(p) // the kubelet does not restart containers
	}
	r.Timeout = limit
	if err := w.hand(r, "device-plugin", false); err != nil {
		t.Error(err)
	}
}

// TestUndoAfterFinalValues gives a component back, after the final values have removed the node selector of Outrigger's
// DaemonSet. Both sides would run.
func TestUndoAfterFinalValues(t *testing.T) {
	w := newWorld(t, "a")
	r := w.runner()
	if err := w.hand(r, "device-plugin", false); err != nil {
		t.Fatal(err)
	}
	set := model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: ourNamespace, Name: "outrigger-device-plugin"}
	w.Patch(set, "", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": nil}}}})
	if err := w.hand(r, "device-plugin", true); err == nil || !strings.Contains(err.Error(), "gpu-operator-resources/outrigger-device-plugin of Outrigger do not select") {
		t.Errorf("got %v", err)
	}
	if got := w.label("a", devicePlugin); got != migrate.Ours {
		t.Errorf("the node has %s", got)
	}
}

// TestDriver hands the driver over: only after all other components, and only from a node without GPU pods.
func TestDriver(t *testing.T) {
	w := newWorld(t, "a", "b")
	r := w.runner()
	refused := func(want string) {
		t.Helper()
		if err := w.hand(r, migrate.Driver, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused("node a still has dcgm-exporter of NVIDIA's GPU Operator")
	for _, name := range []string{"dcgm-exporter", "feature-discovery", "mig-manager", "device-plugin", "toolkit"} {
		if err := w.hand(r, name, false); err != nil {
			t.Fatal(err)
		}
	}
	w.gpuPod("a")
	refused("node a has GPU pods, and the driver cannot be changed below them: default/training; wait until they end, or evict them with --evict")
	if got := w.running(theirNamespace, "a"); !strings.Contains(got, "nvidia-driver-daemonset") {
		t.Errorf("node a runs %q", got)
	}
	r.Evict = true
	var log []string
	r.Progress = func(format string, args ...any) {
		log = append(log, strings.Fields(format)[1])
		w.Logf(format, args...)
	}
	// Nobody but the kubelet ends the pod.
	go func() {
		for w.Context().Err() == nil {
			if p := w.training(); p != nil && p.DeletionTimestamp != nil {
				w.endPod(p)
				return
			}
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a kubelet
		}
	}()
	if err := w.hand(r, migrate.Driver, false); err != nil {
		t.Fatal(err)
	}
	if w.training() != nil {
		t.Error("the GPU pod still runs")
	}
	for _, node := range w.nodes {
		n := w.Get(nodeRef(node))
		if spec, _ := n.Object["spec"].(map[string]any); spec["unschedulable"] == true || n.GetAnnotations()["outrigger.dev/cordoned-by-migrate"] != "" {
			t.Errorf("node %s is still cordoned", node)
		}
		if got := w.running(theirNamespace, node); got != "" {
			t.Errorf("node %s runs %q of NVIDIA", node, got)
		}
	}
	if got := strings.Join(log[:2], " "); got != "cordons evicts" {
		t.Errorf("it began with %q", got)
	}
}

// TestSkippedNodes checks nodes that a hand-over leaves alone, and a node whose kubelet does not run.
func TestSkippedNodes(t *testing.T) {
	w := newWorld(t, "a", "down", "off", "upgrading")
	for node, value := range map[string]string{"off": "false", "upgrading": "paused-for-driver-upgrade"} {
		w.Patch(nodeRef(node), "", map[string]any{"metadata": map[string]any{"labels": map[string]any{devicePlugin: value}}})
	}
	w.status("down", false, 8)
	c, err := migrate.Named("devicePlugin")
	if err != nil {
		t.Fatal(err)
	}
	r := w.runner()
	step, err := r.Step(t.Context(), c, false)
	if err != nil {
		t.Fatal(err)
	}
	want := "off: nvidia.com/gpu.deploy.device-plugin=false upgrading: nvidia.com/gpu.deploy.device-plugin=paused-for-driver-upgrade"
	if got := strings.Join(step.Skipped, " "); got != want {
		t.Errorf("skipped %q, want %q", got, want)
	}
	if err := r.Run(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"a": migrate.Ours, "down": migrate.Ours, "off": "false", "upgrading": "paused-for-driver-upgrade"} {
		if got := w.label(node, devicePlugin); got != want {
			t.Errorf("node %s has %q, want %q", node, got, want)
		}
	}
}
