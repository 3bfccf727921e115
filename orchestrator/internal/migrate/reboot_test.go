package migrate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/model"
)

// boot lets a node report a boot. A container of NVIDIA's driver then has started before the report.
func (w *world) boot(node, id, container string) {
	w.Helper()
	now := time.Now()
	if container != "" {
		for _, p := range w.podsOf(theirNamespace, node) {
			if owner := metav1.GetControllerOf(p); owner == nil || owner.Name != "nvidia-driver-daemonset" {
				continue
			}
			w.Patch(model.Ref{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name}, "status", map[string]any{"status": map[string]any{"containerStatuses": []any{map[string]any{
				"name": p.Spec.Containers[0].Name, "image": "x", "imageID": "", "ready": true, "restartCount": 0, "containerID": "containerd://" + container,
				"state": map[string]any{"running": map[string]any{"startedAt": now.Add(-time.Hour).UTC().Format(time.RFC3339)}},
			}}}})
		}
	}
	w.Patch(nodeRef(node), "status", map[string]any{"status": map[string]any{
		"nodeInfo":   map[string]any{"bootID": id},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": now.UTC().Format(time.RFC3339)}},
	}})
}

// driverPod returns the identity of the driver's pod on a node, and whether it is ending.
func (w *world) driverPod(node string) string {
	for _, p := range w.podsOf(theirNamespace, node) {
		if owner := metav1.GetControllerOf(p); owner != nil && owner.Name == "nvidia-driver-daemonset" {
			return fmt.Sprint(p.UID, p.DeletionTimestamp)
		}
	}
	return ""
}

// TestDriverOnReboot hands the driver over when nodes reboot. The driver of NVIDIA and the GPU pods stay until then. On node b,
// NVIDIA's container starts again before the hand-over, so that the node waits for another reboot.
func TestDriverOnReboot(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.onlyDriver()
	for _, node := range w.nodes {
		w.boot(node, "1", "one-"+node)
	}
	w.gpuPod("b")
	before := w.driverPod("b")
	r := w.runner()
	r.OnReboot, r.RebootTimeout = true, time.Hour
	var steps []string
	r.Progress = func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		w.Log(text)
		switch {
		case text == "driver: waits: a: it has not rebooted; b: it has not rebooted":
			steps = append(steps, "a reboots")
			w.boot("a", "2", "")
		case text == "driver: waits: b: it has not rebooted" && len(steps) == 1:
			steps = append(steps, "b reboots fast")
			if w.label("a", driverLabel) != migrate.Ours || w.driverPod("b") != before {
				t.Error("the driver of b has changed, or the driver of a has not")
			}
			before = w.driverPod("b")
			w.boot("b", "2", "two")
		case strings.Contains(text, "b has rebooted, and the driver container of NVIDIA's GPU Operator was faster"):
			steps = append(steps, "b reboots")
			if w.driverPod("b") != before || w.label("b", driverLabel) != migrate.Theirs {
				t.Error("the driver of b has changed while it was loaded")
			}
			w.boot("b", "3", "")
		}
	}
	if err := w.hand(r, migrate.Driver, false); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(steps, ", "); got != "a reboots, b reboots fast, b reboots" {
		t.Errorf("the steps were %s", got)
	}
	for _, node := range w.nodes {
		if w.label(node, driverLabel) != migrate.Ours || !strings.Contains(w.running(ourNamespace, node), "driver-loader") || w.cordoned(node) {
			t.Errorf("node %s has %s, and runs %s", node, w.label(node, driverLabel), w.running(ourNamespace, node))
		}
	}
	if p := w.training(); p == nil || p.DeletionTimestamp != nil {
		t.Error("the GPU pod has been deleted")
	}
}

// TestDriverOfNodesThatDoNotReboot leaves the driver of a node alone whose kubelet has only stopped, and hands a node over
// that is shut down.
func TestDriverOfNodesThatDoNotReboot(t *testing.T) {
	w := newWorld(t, "down", "stopped", "up")
	w.onlyDriver()
	for _, node := range w.nodes {
		w.boot(node, "1", "one-"+node)
	}
	w.status("stopped", false, 8)
	w.status("down", false, 8)
	w.Patch(nodeRef("down"), "", map[string]any{"spec": map[string]any{"taints": []any{map[string]any{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}}}})
	before := w.driverPod("up") + w.driverPod("stopped")
	r := w.runner()
	r.OnReboot, r.RebootTimeout = true, 2*time.Second
	c, err := migrate.Named(migrate.Driver)
	if err != nil {
		t.Fatal(err)
	}
	if step, err := r.Step(t.Context(), c, false); err != nil || !strings.Contains(step.Text(), "way     each node at its next reboot, while this command runs") || strings.Contains(step.Text(), "must end first") {
		t.Errorf("%v, the plan is\n%s", err, step.Text())
	}
	err = w.hand(r, migrate.Driver, false)
	for _, node := range []string{"stopped", "up"} {
		if err == nil || !strings.Contains(err.Error(), "hand over driver on "+node+": not within 2s: it has not rebooted; it keeps its driver") {
			t.Errorf("got %v", err)
		}
	}
	if w.driverPod("up")+w.driverPod("stopped") != before || w.label("up", driverLabel)+w.label("stopped", driverLabel) != migrate.Theirs+migrate.Theirs {
		t.Error("the driver of a node has changed that has not rebooted")
	}
	if got := w.label("down", driverLabel); got != migrate.Ours {
		t.Errorf("the node that is down has %s", got)
	}
}

// TestDriverOnRebootNeedsTheOtherComponents refuses nodes with another component of NVIDIA's, which uses the driver.
func TestDriverOnRebootNeedsTheOtherComponents(t *testing.T) {
	w := newWorld(t, "a")
	r := w.runner()
	r.OnReboot = true
	if err := w.hand(r, migrate.Driver, false); err == nil || !strings.Contains(err.Error(), "node a still has dcgm-exporter of NVIDIA's GPU Operator") {
		t.Errorf("got %v", err)
	}
}
