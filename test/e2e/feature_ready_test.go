//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// readyIs reports whether a Node's condition has a status, and a reason that
// begins with a word; an empty word takes any.
func readyIs(status, reason string) func(stack.Node) bool {
	return func(n stack.Node) bool {
		c, ok := n.Conditions[gpuReady]
		return ok && c.Status == status && strings.HasPrefix(c.Reason, reason)
	}
}

func TestReadinessFollowsThePlugin(t *testing.T) {
	api := discovery(t, "readyChain={driver,plugin}")
	without := nodeIs(t, api, gpuNode(), "the missing plugin is reported", readyIs("False", "Plugin"))
	t.Logf("without a plugin: %+v", without.Conditions[gpuReady])
	plugin(t)
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin", readyIs("True", ""))

	seen := observe(t, api, gpuNode(), readyIs("False", "Plugin"))
	if _, err := shared.Exec(t.Context(), gpuNode(), "busybox", "killall", "-KILL", "device-plugin"); err != nil {
		t.Fatal(err)
	}
	flips(t, seen, time.Now(), "the plugin was killed")
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin that was started again", readyIs("True", ""))

	seen = observe(t, api, gpuNode(), readyIs("False", "Plugin"))
	kubectl(t, "-n", stack.Namespace, "delete", "daemonset", "device-plugin", "--wait=false")
	flips(t, seen, time.Now(), "the plugin's DaemonSet was deleted")
	plugin(t)
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin that was installed again", readyIs("True", ""))

	seen = observe(t, api, gpuNode(), readyIs("False", "Driver"))
	t.Cleanup(func() { driver(context.WithoutCancel(t.Context()), t, "on") })
	begin := time.Now()
	driver(t.Context(), t, "off")
	flips(t, seen, begin, "the driver began to be unloaded")
	seen = observe(t, api, gpuNode(), readyIs("True", ""))
	driver(t.Context(), t, "on")
	flips(t, seen, time.Now(), "the driver was loaded")
}

// flips logs how long the condition took after its cause.
func flips(t *testing.T, seen func() sight, caused time.Time, cause string) {
	t.Helper()
	s := seen()
	c := s.node.Conditions[gpuReady]
	if s.err != nil {
		t.Fatalf("after %s: %v; the condition is %+v", cause, s.err, c)
	}
	t.Logf("%s: %s, %s: %s", cause, c.Status, c.Reason, c.Message)
	took(t, "the condition after "+cause, s.at.Sub(caused), 2*time.Second)
}

// startup is the taint that a GPU node may have from its start on.
func startup() stack.Taint {
	return stack.Taint{Key: "outrigger.dev/gpu-not-ready", Effect: "NoSchedule"}
}

// keep is a taint that keeps the list of taints from being empty, to which
// nothing can be added.
func keep() stack.Taint {
	return stack.Taint{Key: "test.outrigger.dev/keep", Effect: "PreferNoSchedule"}
}

// setTaints makes these the taints of a Node.
func setTaints(ctx context.Context, api *stack.API, node string, taints ...stack.Taint) error {
	patch := map[string]any{"spec": map[string]any{"taints": taints}}
	return api.Patch(ctx, stack.NodePath(node), stack.MergePatch, patch)
}

// addTaint adds one without reading the others, in one step of the API
// server: nothing that others do at the same time is lost.
func addTaint(ctx context.Context, api *stack.API, node string, taint stack.Taint) error {
	patch := []map[string]any{{"op": "add", "path": "/spec/taints/-", "value": taint}}
	return api.Patch(ctx, stack.NodePath(node), stack.JSONPatch, patch)
}

// tainted reports whether a Node has a taint.
func tainted(n stack.Node, taint stack.Taint) bool {
	return slices.Contains(n.Taints, taint)
}

func TestTheStartupTaintGoesAndThoseOfOthersStay(t *testing.T) {
	api := discovery(t)
	nodeIs(t, api, gpuNode(), "the node is ready for GPU pods", readyIs("True", ""))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		driver(ctx, t, "on")
		if err := setTaints(ctx, api, gpuNode()); err != nil {
			t.Error(err)
		}
	})
	others := 0
	for round := range 20 {
		driver(t.Context(), t, "off")
		nodeIs(t, api, gpuNode(), "the driver is missed", readyIs("False", "Driver"))
		// As an autoscaler or a kubelet makes the Node.
		if err := setTaints(t.Context(), api, gpuNode(), keep(), startup()); err != nil {
			t.Fatal(err)
		}
		gone := observe(t, api, gpuNode(), func(n stack.Node) bool { return !tainted(n, startup()) })
		added := make(chan added, 1)
		stop, cancel := context.WithCancel(t.Context())
		driver(t.Context(), t, "on")
		loaded := time.Now()
		go func() { added <- addMany(stop, api, fmt.Sprintf("test.outrigger.dev/round-%d", round)) }()
		free := gone()
		cancel()
		theirs := <-added
		if err := errors.Join(free.err, theirs.err); err != nil {
			t.Fatalf("round %d: %v; the taints are %v", round, err, free.node.Taints)
		}
		n, err := api.Node(t.Context(), gpuNode())
		if err != nil {
			t.Fatal(err)
		}
		for _, taint := range append(theirs.taints, keep()) {
			if !tainted(n, taint) {
				t.Errorf("round %d: taint %v of another writer is gone", round, taint)
			}
		}
		others += len(theirs.taints)
		t.Logf("round %d: the taint was gone after %s, while %d others came", round, free.at.Sub(loaded).Round(time.Millisecond), len(theirs.taints))
	}
	if others < 20 {
		t.Errorf("only %d taints were added in 20 rounds: nothing was raced", others)
	}

	// A node that was ready once is not tainted again.
	seen := observe(t, api, gpuNode(), readyIs("False", "Driver"))
	driver(t.Context(), t, "off")
	if s := seen(); s.err != nil || tainted(s.node, startup()) {
		t.Errorf("without its driver the node has taints %v (error %v), want no start-up taint", s.node.Taints, s.err)
	}
	driver(t.Context(), t, "on")
	if n := nodeIs(t, api, gpuNode(), "the node is ready again", readyIs("True", "")); tainted(n, startup()) {
		t.Errorf("the node has taints %v, want no start-up taint", n.Taints)
	}
}

// added is what a writer of taints has done.
type added struct {
	taints []stack.Taint
	err    error
}

// addMany adds taints to the GPU node, one after the other, until ctx ends.
func addMany(ctx context.Context, api *stack.API, prefix string) added {
	var a added
	for len(a.taints) < 500 && ctx.Err() == nil {
		taint := stack.Taint{Key: fmt.Sprintf("%s-%d", prefix, len(a.taints)), Effect: "PreferNoSchedule"}
		// A request that was sent is to be answered: its taint counts.
		if a.err = addTaint(context.WithoutCancel(ctx), api, gpuNode(), taint); a.err != nil {
			return a
		}
		a.taints = append(a.taints, taint)
	}
	return a
}
