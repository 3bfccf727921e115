//go:build e2e

package driver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// Labels and annotations of an upgrade.
const (
	stateLabel      = "nvidia.com/gpu-driver-upgrade-state"
	causeAnnotation = "outrigger.dev/driver-upgrade-cause"
	granted         = "outrigger.dev/driver-upgrade-granted"
)

// TestDriver brings the driver to bare nodes, and upgrades it while pods use the GPUs.
func TestDriver(t *testing.T) {
	n := newNodes(t)
	n.part("bare nodes get the driver", bare)
	n.part("a new pod of the agent changes nothing", replaced)
	n.part("a token of a node changes no other node", guarded)
	n.part("an upgrade evicts only pods with GPUs, one node at a time", upgraded)
	n.part("a PodDisruptionBudget holds an upgrade, and a node that dies in it keeps its place", held)
	n.part("a driver that fails is rolled back, and halts the others", rolledBack)
}

// bare installs the agent on nodes without a driver.
func bare(n nodes) {
	for _, node := range n.GPUNodes() {
		if got := n.Shell(node, "ls -d /dev/nvidia* /run/nvidia/driver/usr 2>/dev/null || true"); got != "" {
			n.T.Fatalf("%s has a driver already: %s", node, got)
		}
	}
	n.driver(first)
	n.ready()
	n.runs(first, n.GPUNodes()...)
	for _, node := range n.GPUNodes() {
		n.Shell(node, "cat /run/nvidia/validations/driver-ready")
	}
	release, err := n.DevicePlugin("nvidiaDriverRoot=/run/nvidia/driver")
	n.Must(err)
	n.Must(n.Install(n.T.Context(), release))
	for _, node := range n.GPUNodes() {
		n.Must(n.WaitAllocatable(n.T.Context(), node, stack.GPU, gpus, limit))
	}
}

// replaced replaces the agent's pods: nothing is written, on the nodes and in the API.
func replaced(n nodes) {
	state := func() (all string) {
		for _, node := range n.GPUNodes() {
			all += n.Shell(node, `set -e
stat -c '%n %Y %i' /sys/module/nvidia /run/nvidia/validations/driver-ready
stat -c '%n %Y' /proc/$(cat /run/nvidia-persistenced/nvidia-persistenced.pid)/exe
find /var/lib/outrigger/driver -printf '%p %T@ %i\n' | sort
grep -c /run/nvidia/driver /proc/self/mountinfo`)
		}
		return all + n.MustKubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.labels} {.items[*].metadata.annotations}")
	}
	before, since := state(), time.Now()
	n.MustKubectl("-n", stack.Namespace, "rollout", "restart", "daemonset/driver-loader")
	n.MustKubectl("-n", stack.Namespace, "rollout", "status", "daemonset/driver-loader", "--timeout", limit.String())
	if after := state(); after != before {
		n.T.Errorf("before\n%s\nafter\n%s", before, after)
	}
	requests, err := n.Requests("driver-loader", since)
	n.Must(err)
	if len(requests) == 0 {
		n.T.Error("the new agents have asked the API server for nothing")
	}
	for _, r := range requests {
		if r.Writes() {
			n.T.Errorf("a new agent has written: %s", r)
		}
	}
}

// guarded tries to cordon nodes with the token of an agent's pod.
func guarded(n nodes) {
	own, other := n.GPUNodes()[0], n.GPUNodes()[1]
	pod := n.MustKubectl("-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name=driver-loader",
		"--field-selector=spec.nodeName="+own, "-o", "jsonpath={.items[0].metadata.name}")
	api, err := n.AccountOf(n.T.Context(), pod)
	n.Must(err)
	defer api.Close()
	type object = map[string]any
	for name, c := range map[string]struct {
		node  string
		patch object
		want  string
	}{
		"cordon another node": {other, object{"spec": object{"unschedulable": true}}, "does not write to other Nodes"},
		"permit an upgrade":   {own, object{"metadata": object{"annotations": object{granted: second}}}, "may not change these annotations"},
		"label the own node":  {own, object{"metadata": object{"labels": object{"nvidia.com/gpu.count": "9"}}}, "may not change these labels"},
	} {
		err := api.Patch(n.T.Context(), stack.NodePath(c.node), "application/merge-patch+json", c.patch)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			n.T.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// upgraded upgrades nodes that all have pods with GPUs, and others.
func upgraded(n nodes) {
	n.apply(workload)
	n.workloadRuns()
	cpu, gpu := n.pods("cpu"), n.pods("gpu")
	w := n.watch()
	n.driverStarts(second)
	n.state("upgrade-done", n.GPUNodes()...)
	w.stop()
	n.runs(second, n.GPUNodes()...)
	if w.most() != 1 {
		n.T.Errorf("%d nodes were upgraded at once, want 1:\n%s", w.most(), strings.Join(w.log, "\n"))
	}
	n.workloadRuns()
	if got := n.pods("cpu"); got != cpu {
		n.T.Errorf("the pods without GPUs were\n%s\nand are\n%s", cpu, got)
	}
	// The kubelet would reject pods that come before the device plugin offers GPUs again.
	if got := n.MustKubectl("get", "pods", "--field-selector=status.phase=Failed", "-o", "name"); got != "" {
		n.T.Errorf("pods came back too early: %s", got)
	}
	for pod := range strings.Lines(gpu) {
		if strings.Contains(n.pods("gpu"), strings.TrimSpace(pod)) {
			n.T.Errorf("the pod %s was not evicted", pod)
		}
	}
}

// held goes back to the first driver, which a budget forbids for a while. The node that is held dies.
func held(n nodes) {
	n.apply(budget)
	n.driverStarts(first)
	n.Until("an Event names the budget that holds a node", func() bool {
		events := n.MustKubectl("get", "events", "--field-selector=reason=GPUDriverUpgrade", "-o", "jsonpath={.items[*].message}")
		return strings.Contains(events, "the PodDisruptionBudget gpu blocks the eviction of pod default/gpu-")
	})
	n.runs(second, n.GPUNodes()...)
	n.workloadRuns()
	dead := n.grants()
	if len(dead) != 1 {
		n.T.Fatalf("the nodes %s have a grant, want one", dead)
	}
	n.dies(dead[0])
	n.MustKubectl("delete", "pdb/gpu")
	// A new writer counts all nodes before its pod is ready.
	n.MustKubectl("-n", stack.Namespace, "rollout", "restart", "deployment/driver-loader-upgrades")
	n.MustKubectl("-n", stack.Namespace, "rollout", "status", "deployment/driver-loader-upgrades", "--timeout", limit.String())
	if now := n.grants(); !slices.Equal(now, dead) {
		n.T.Errorf("the nodes %s have a grant, want that of the dead node %s only", now, dead)
	}
	n.Must(n.Start(n.T.Context(), "kubelet", dead[0]))
	n.state("upgrade-done", n.GPUNodes()...)
	n.all(first)
	n.workloadRuns()
}

// rolledBack upgrades to a driver whose module does not load.
func rolledBack(n nodes) {
	n.driverStarts(broken)
	var failed string
	n.Until("a node has failed", func() bool {
		failed = n.MustKubectl("get", "nodes", "--selector="+stateLabel+"=upgrade-failed", "-o", "jsonpath={.items[*].metadata.name}")
		return failed != ""
	})
	n.Until("the node can be used again", func() bool {
		return n.MustKubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}") == ""
	})
	n.runs(first, n.GPUNodes()...)
	if why := n.MustKubectl("get", "node", failed, "-o", `jsonpath={.metadata.annotations.outrigger\.dev/driver-upgrade-cause}`); !strings.Contains(why, broken) {
		n.T.Errorf("%s says %q, want the driver %s", failed, why, broken)
	}
	n.workloadRuns()
	if now := n.grants(); slices.ContainsFunc(now, func(node string) bool { return node != failed }) {
		n.T.Errorf("after %s failed, the nodes %s have a grant", failed, now)
	}
	// The others wait, and say why.
	n.Until("the other nodes are halted", func() bool {
		halted := n.MustKubectl("get", "nodes", "--selector="+stateLabel+"=upgrade-required", "-o", `jsonpath={.items[*].metadata.annotations.outrigger\.dev/driver-upgrade-cause}`)
		return strings.Count(halted, failed) == len(n.GPUNodes())-1
	})
	if strings.Contains(failed, " ") {
		n.T.Errorf("the nodes %s failed, want one", failed)
	}
}
