package migrate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/migrate"
)

// TestNext derives hand-overs from the labels of nodes, whose names are the values of the label.
func TestNext(t *testing.T) {
	c, err := migrate.Named("device-plugin")
	if err != nil {
		t.Fatal(err)
	}
	set := func(value string) migrate.Set {
		return migrate.Set{Namespace: "n", Name: value, Label: c.Label, Value: value}
	}
	both := []migrate.Set{set(migrate.Theirs), set(migrate.Ours)}
	state := &migrate.State{}
	for _, value := range []string{migrate.Theirs, migrate.Ours, migrate.Between, "false", "outrigger_paused-for-driver-upgrade", ""} {
		labels := map[string]string{c.Label: value}
		state.Nodes = append(state.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + value, Labels: labels}})
	}
	state.Nodes = append(state.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-without-label"}})
	skipped := []string{"node-false: " + c.Label + "=false", "node-outrigger_paused-for-driver-upgrade: " + c.Label + "=outrigger_paused-for-driver-upgrade"}
	for name, test := range map[string]struct {
		sets          []migrate.Set
		undo          bool
		nodes, done   []string
		skipped       []string
		error, effect string
	}{
		"forward":           {sets: both, nodes: []string{"node-paused-for-outrigger", "node-true"}, done: []string{"node-outrigger"}, skipped: skipped, effect: "starts  n/outrigger"},
		"back":              {sets: both, undo: true, nodes: []string{"node-outrigger", "node-paused-for-outrigger"}, done: []string{"node-true"}, skipped: skipped, effect: "ends    n/outrigger"},
		"without Outrigger": {sets: both[:1], nodes: []string{"node-paused-for-outrigger", "node-true"}, done: []string{"node-outrigger"}, skipped: skipped, error: "no DaemonSet of Outrigger selects"},
		"back without NVIDIA's operator": {
			sets: both[1:], undo: true, nodes: []string{"node-outrigger", "node-paused-for-outrigger"}, done: []string{"node-true"}, skipped: skipped,
			error: "enable devicePlugin in its ClusterPolicy",
		},
		"without DaemonSets": {done: []string{"node-outrigger"}, skipped: []string{"all nodes: neither NVIDIA's GPU Operator nor Outrigger has a DaemonSet for this component"}, effect: "nodes   none"},
	} {
		state.Sets = test.sets
		step := migrate.Next(state, c, test.undo)
		for what, d := range map[string]string{"nodes": cmp.Diff(test.nodes, step.Nodes), "done": cmp.Diff(test.done, step.Done), "skipped": cmp.Diff(test.skipped, step.Skipped)} {
			if d != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, what, d)
			}
		}
		if err := step.Check(); (err == nil) != (test.error == "") || err != nil && !strings.Contains(err.Error(), test.error) {
			t.Errorf("%s: %v, want %q", name, err, test.error)
		}
		if !strings.Contains(step.Text(), test.effect) {
			t.Errorf("%s: the text lacks %q:\n%s", name, test.effect, step.Text())
		}
	}
}
