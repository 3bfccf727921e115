//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// helmUntilTheEnd returns Helm, which uninstalls the umbrella chart when the test ends.
func helmUntilTheEnd(t *testing.T) *stack.Helm {
	t.Helper()
	helm := umbrellaHelm(t)
	t.Cleanup(func() {
		if err := helm.Uninstall(stack.Umbrella); err != nil {
			t.Error(err)
		}
		// The agents revert their changes of the node when they end. The next test needs the node as it was.
		for _, namespace := range []string{stack.Namespace, stack.OperatorNamespace} {
			kubectlCleanup(t, "-n", namespace, "wait", "pods", "--all", "--for=delete", "--timeout="+limit.String())
		}
	})
	return helm
}

// umbrellaHelm returns Helm for the umbrella chart. It deletes the namespace of the agents: Helm rejects
// a release with a namespace that other tests have made.
func umbrellaHelm(t *testing.T) *stack.Helm {
	t.Helper()
	helm, err := shared.Helm(stack.OperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "namespace", stack.Namespace, "--ignore-not-found")
	return helm
}

// stageOf returns a stage of a policy, and an empty one if it has none of this name.
func stageOf(p stack.Policy, name string) stack.Stage {
	for _, s := range p.Status.Stages {
		if s.Name == name {
			return s
		}
	}
	return stack.Stage{}
}

// told reports whether a policy has a problem, with a node and a part of its fix. stage and cause
// have a space between them.
func told(p stack.Policy, problem, node, fix string) bool {
	return slices.ContainsFunc(p.Status.Problems, func(found stack.Problem) bool {
		return found.Stage+" "+found.Cause == problem && slices.Contains(found.Examples, node) && strings.Contains(found.Fix, fix)
	})
}

// installedWithoutDriver installs the umbrella chart while the driver of the GPU node is not
// loaded, and loads it once the status says that the first agent that needs it waits.
func installedWithoutDriver(t *testing.T, helm *stack.Helm) {
	t.Helper()
	driver(t.Context(), t, "off")
	t.Cleanup(func() { driver(context.WithoutCancel(t.Context()), t, "on") })
	if err := helm.Install(t.Context(), stack.Umbrella, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	const waiting = "container-toolkit"
	var p stack.Policy
	eventually(t, "the status names the stage, the node, the cause and the fix", func() bool {
		p = readPolicy(t)
		return p.Current() && told(p, " DriverNotFound", gpuNode(), "install NVIDIA's driver")
	})
	for _, s := range p.Status.Stages {
		t.Logf("stage %s is %s: %s", s.Name, s.State, s.Message)
	}
	// A node that had GPUs in an earlier test has lost its driver. Another one is still starting.
	if s := stageOf(p, waiting); p.Status.State == "ready" || s.State != "Progressing" && s.State != "Failed" || s.Ready != 0 {
		t.Errorf("the policy is %s, and the stage %+v", p.Status.State, s)
	}
	if s := stageOf(p, "device-plugin"); s.State != "Waiting" || s.Message != "waits for the stage "+waiting {
		t.Errorf("the stage after it is %+v", s)
	}
	if names := kubectl(t, "-n", stack.Namespace, "get", "daemonsets", "-o", "name"); strings.Contains(names, "device-plugin") {
		t.Errorf("without a driver there are %s", names)
	}
	driver(t.Context(), t, "on")
}

// The labels of the nodes of the pools gpu and plain.
const (
	poolGPU   = "test.outrigger.dev/gpu"
	poolPlain = "test.outrigger.dev/plain"
)

// labelPools gives each pool one of the two nodes until the test ends.
func labelPools(t *testing.T) {
	t.Helper()
	kubectl(t, "label", "node", gpuNode(), poolGPU+"=true")
	kubectl(t, "label", "node", shared.Nodes()[0], poolPlain+"=true")
	t.Cleanup(func() { kubectlCleanup(t, "label", "nodes", "--all", poolGPU+"-", poolPlain+"-") })
}

// testPools returns the pools of the tests. plain adds labels to the selector of the second one.
func testPools(plain ...string) []any {
	selector := map[string]string{poolPlain: "true"}
	for _, label := range plain {
		selector[label] = "true"
	}
	pool := func(name string, selector map[string]string, values map[string]any) map[string]any {
		values["devicePlugin"] = map[string]any{"podLabels": map[string]string{"test.outrigger.dev/pool": name}}
		return map[string]any{"name": name, "nodeSelector": selector, "values": values}
	}
	return []any{
		pool("gpu", map[string]string{poolGPU: "true"}, map[string]any{}),
		pool("plain", selector, map[string]any{"toolkit": map[string]any{"enabled": false}}),
	}
}

// patchPools sets the pools of the policy. The release must have the same pools already.
func patchPools(t *testing.T, plain ...string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"pools": testPools(plain...)}})
	if err != nil {
		t.Fatal(err)
	}
	patchPolicy(t, string(patch))
}

// poolsSelectTheirNodes gives each node values of its own. The second node has a label as if it had
// GPUs, but no driver: the agents of its pool wait, and hold up nothing else.
func poolsSelectTheirNodes(t *testing.T) {
	plain := shared.Nodes()[0]
	defer func() {
		if t.Failed() {
			describeOrchestrator(t)
		}
	}()
	kubectl(t, "label", "node", plain, stack.PCILabel+"=true")
	t.Cleanup(func() { kubectlCleanup(t, "label", "node", plain, stack.PCILabel+"-") })
	patchPools(t)
	eventually(t, "the pool with a driver is ready, and the other one waits for its driver", func() bool {
		p := readPolicy(t)
		plugin := stageOf(p, "device-plugin/gpu")
		passed := !slices.ContainsFunc(plugin.Validations, func(v struct{ Name, State, Message string }) bool { return v.State != "Passed" })
		return p.Current() && plugin.State == "Ready" && passed && told(p, " DriverNotFound", plain, "install NVIDIA's driver")
	})
	const pods = `jsonpath={range .items[*]}{.spec.nodeName} {.metadata.ownerReferences[0].name} {.metadata.labels.test\.outrigger\.dev/pool}{"\n"}{end}`
	got := strings.Split(kubectl(t, "-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name in (device-plugin,container-toolkit)", "-o", pods), "\n")
	slices.Sort(got)
	want := []string{plain + " outrigger-plain-device-plugin plain", gpuNode() + " outrigger-gpu-container-toolkit", gpuNode() + " outrigger-gpu-device-plugin gpu"}
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the nodes run\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	kubectl(t, "label", "node", plain, stack.PCILabel+"-")
	policyIsReady(t)
	eventually(t, "feature discovery has left the node, with its labels and its condition", func() bool {
		return podOf(t, "outrigger-feature-discovery", plain) == "" && discovered(t, plain) == ""
	})
	if discovered(t, gpuNode()) == "" {
		t.Error("feature discovery has removed what it has published on the node that it still selects")
	}
}

// discovered returns the entries of metadata.managedFields in which feature discovery owns labels or a
// condition of a node.
func discovered(t *testing.T, node string) string {
	t.Helper()
	const entries = `jsonpath={range .metadata.managedFields[?(@.manager=="feature-discovery")]}{.fieldsV1}{"\n"}{end}`
	var owned []string
	for entry := range strings.Lines(kubectl(t, "get", "node", node, "--show-managed-fields", "-o", entries)) {
		if strings.Contains(entry, "f:labels") || strings.Contains(entry, "f:conditions") {
			owned = append(owned, entry)
		}
	}
	return strings.Join(owned, "")
}

// overlappingPoolsAreRefused makes the pools overlap, on a node and by their selectors.
func overlappingPoolsAreRefused(t *testing.T) {
	before, pod := versions(t), podOf(t, "outrigger-gpu-device-plugin", gpuNode())
	kubectl(t, "label", "node", gpuNode(), poolPlain+"=true")
	overlap := func() bool {
		return told(readPolicy(t), " PoolsOverlap", gpuNode(), "the nodeSelector of one of the pools")
	}
	eventually(t, "the status names the node of two pools", overlap)
	kubectl(t, "label", "node", gpuNode(), poolPlain+"-")
	eventually(t, "the node is in one pool again", func() bool { return !overlap() })

	patchPools(t, poolGPU)
	eventually(t, "the policy is refused, with both names", func() bool {
		p := readPolicy(t)
		return p.Current() && slices.ContainsFunc(p.Status.Conditions, func(c stack.Condition) bool {
			return c.Type == "Ready" && c.Status == "False" && strings.Contains(c.Message, "pools gpu and plain overlap")
		})
	})
	patchPools(t)
	policyIsReady(t)
	if names := changed(before, versions(t)); len(names) > 0 {
		t.Errorf("changed %v, want nothing", names)
	}
	if now := podOf(t, "outrigger-gpu-device-plugin", gpuNode()); now == "" || now != pod {
		t.Errorf("the pod %s of the device plugin became %s", pod, now)
	}
}
