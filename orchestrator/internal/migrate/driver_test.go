package migrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
)

const driverLabel = "nvidia.com/gpu.deploy.driver"

// onlyDriver hands all components except the driver over, without a wait in between.
func (w *world) onlyDriver() {
	w.Helper()
	labels := map[string]any{}
	for _, c := range migrate.Components() {
		for _, label := range c.Labels() {
			if c.Name != migrate.Driver {
				labels[label] = migrate.Ours
			}
		}
	}
	for _, node := range w.nodes {
		w.Patch(nodeRef(node), "", map[string]any{"metadata": map[string]any{"labels": labels}})
		agenttest.Poll(w.T, "Outrigger's pods", func() bool {
			return w.running(theirNamespace, node) == "nvidia-driver-daemonset nvidia-operator-validator" && strings.Count(w.running(ourNamespace, node), "outrigger-") == len(migrate.Components())-1
		})
	}
}

// cordoned reports whether a node is cordoned, or has the annotation of a migration.
func (w *world) cordoned(node string) bool {
	w.Helper()
	n := w.Get(nodeRef(node))
	spec, _ := n.Object["spec"].(map[string]any)
	return spec["unschedulable"] == true || n.GetAnnotations()["outrigger.dev/cordoned-by-migrate"] != ""
}

// TestDriverKeepsPodsThatStartBeforeTheCordon starts a GPU pod after the command has found none, and before it cordons
// the node.
func TestDriverKeepsPodsThatStartBeforeTheCordon(t *testing.T) {
	w := newWorld(t, "a")
	w.onlyDriver()
	r := w.runner()
	r.Timeout = 5 * time.Second
	r.Progress = func(format string, _ ...any) {
		if strings.Contains(format, ": cordons") {
			w.gpuPod("a")
		}
	}
	if err := w.hand(r, migrate.Driver, false); err == nil || !strings.Contains(err.Error(), "node a has GPU pods") {
		t.Errorf("got %v", err)
	}
	if p := w.training(); p == nil || p.DeletionTimestamp != nil {
		t.Error("the GPU pod has been evicted")
	}
	if w.cordoned("a") || w.label("a", driverLabel) != migrate.Theirs {
		t.Errorf("the node is cordoned, or has %s", w.label("a", driverLabel))
	}
}

// TestDriverWithoutToolkit hands the driver over from a GPU Operator without other components. Its operator labels the
// nodes for them all the same.
func TestDriverWithoutToolkit(t *testing.T) {
	w := newWorld(t, "a")
	for name, label := range theirSets() {
		if label != "driver" && label != "operator-validator" {
			w.Delete(model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: theirNamespace, Name: name})
		}
	}
	agenttest.Poll(t, "the node offers no GPU any more", func() bool {
		capacity, _, _ := unstructured.NestedString(w.Get(model.Ref{APIVersion: "v1", Kind: "Node", Name: "a"}).Object, "status", "allocatable", gpuResource)
		return capacity == "0"
	})
	if err := w.hand(w.runner(), migrate.Driver, false); err != nil {
		t.Fatal(err)
	}
	if got := w.label("a", driverLabel); got != migrate.Ours {
		t.Errorf("the node has %s", got)
	}
}

// TestInterruptedDriver ends the hand-over of the driver after each change of the node. A repetition completes it.
func TestInterruptedDriver(t *testing.T) {
	w := newWorld(t, "a")
	w.onlyDriver()
	const ours = ourNamespace + "/outrigger-driver-loader"
	for _, at := range []string{"cordons", migrate.Between, migrate.Ours} {
		w.mu.Lock()
		w.held[theirNamespace+"/nvidia-driver-daemonset"], w.broken[ours] = at == migrate.Between, true
		w.mu.Unlock()
		ctx, cancel := context.WithCancelCause(t.Context())
		r := w.runner()
		r.Progress = func(format string, _ ...any) {
			if strings.Contains(format, at) || strings.Contains(format, "waits") && w.label("a", driverLabel) == at {
				cancel(errors.New("interrupted"))
			}
		}
		if err := w.handUntil(ctx, r, migrate.Driver, false); err == nil {
			t.Errorf("%s: no error", at)
		}
		w.mu.Lock()
		clear(w.held)
		clear(w.broken)
		w.mu.Unlock()
		if at == migrate.Ours && !w.cordoned("a") {
			t.Errorf("%s: the node is not cordoned", at)
		}
	}
	for _, p := range w.podsOf(ourNamespace, "a") {
		if len(p.Status.ContainerStatuses) > 0 {
			w.endPod(p) // the kubelet does not restart containers
		}
	}
	if err := w.hand(w.runner(), migrate.Driver, false); err != nil {
		t.Fatal(err)
	}
	if w.cordoned("a") || w.label("a", driverLabel) != migrate.Ours || !strings.Contains(w.running(ourNamespace, "a"), "driver-loader") {
		t.Errorf("the node is cordoned, or runs only %s", w.running(ourNamespace, "a"))
	}
}

// TestDriverOfAStoppedNode leaves the driver of a node alone whose kubelet does not run: its GPU pods may still run.
func TestDriverOfAStoppedNode(t *testing.T) {
	w := newWorld(t, "a", "stopped")
	w.onlyDriver()
	w.gpuPod("stopped")
	w.status("stopped", false, 8)
	if err := w.hand(w.runner(), migrate.Driver, false); err != nil {
		t.Fatal(err)
	}
	if a, stopped := w.label("a", driverLabel), w.label("stopped", driverLabel); a != migrate.Ours || stopped != migrate.Theirs || w.cordoned("stopped") {
		t.Errorf("node a has %s, and the stopped node has %s", a, stopped)
	}
}
