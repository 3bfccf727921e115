package migrate_test

import (
	"strings"
	"testing"
	"time"

	"outrigger.dev/orchestrator/internal/migrate"
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
