//go:build e2e

package e2e_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

const policy = "gpupolicy/" + stack.PolicyName

// readPolicy returns the policy as it is, and an empty one if there is none.
func readPolicy(t *testing.T) stack.Policy {
	t.Helper()
	p, err := shared.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// policyIsReady waits until all stages are ready, and their validations have passed.
func policyIsReady(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			describeOrchestrator(t)
		}
	}()
	eventually(t, "the policy is ready", func() bool { return readPolicy(t).Ready() })
}

func describeOrchestrator(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, args := range [][]string{
		{"get", policy, "-o", `jsonpath={range .status.conditions[*]}{.type} {.status} {.message}{"\n"}{end}{range .status.problems[*]}{@}{"\n"}{end}`},
		{"get", "pods", "-A", "-o", "wide"},
		{"-n", stack.Namespace, "get", "events", "--field-selector=type=Warning", "-o", `jsonpath={range .items[-30:]}{.lastTimestamp} {.involvedObject.name} {.reason} {.message}{"\n"}{end}`},
		{"get", "node", gpuNode(), "-o", `jsonpath={.status.allocatable}{"\n"}{range .status.conditions[*]}{.type} {.status} {.lastTransitionTime} {.message}{"\n"}{end}`},
		{"-n", stack.Namespace, "logs", "--selector=app.kubernetes.io/name=container-toolkit", "--tail=30"},
		{"get", policy, "-o", "jsonpath={.spec}"},
		{"-n", stack.OperatorNamespace, "logs", "--selector=app.kubernetes.io/name=orchestrator", "--tail=50"},
	} {
		out, err := shared.Kubectl(ctx, args...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// patchPolicy changes the values of the policy.
func patchPolicy(t *testing.T, patch string) {
	t.Helper()
	kubectl(t, "patch", policy, "--type=merge", "-p", patch)
}

// versions returns the generation of DaemonSets, whose status changes with their pods, and the
// resourceVersion of all other objects of the inventory, by name.
func versions(t *testing.T) map[string]string {
	t.Helper()
	type object struct{ kind, namespace, name string }
	inventory := map[object]bool{}
	kinds := map[string]bool{}
	for _, r := range readPolicy(t).Status.Inventory {
		inventory[object{r.Kind, r.Namespace, r.Name}] = true
		kind := r.Kind
		if group, _, hasGroup := strings.Cut(r.APIVersion, "/"); hasGroup {
			kind += "." + group
		}
		kinds[kind] = true
	}
	// One kubectl for all of them: one for each takes a tenth of a second of both processors.
	const fields = `jsonpath={range .items[*]}{.kind}|{.metadata.namespace}|{.metadata.name}|{.metadata.uid}|{.metadata.resourceVersion}|{.metadata.generation}{"\n"}{end}`
	found, exist := map[string]string{}, 0
	for line := range strings.Lines(kubectl(t, "get", strings.Join(slices.Sorted(maps.Keys(kinds)), ","), "--all-namespaces", "-o", fields)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 6 || !inventory[object{f[0], f[1], f[2]}] {
			continue
		}
		exist++
		version := f[4]
		if f[0] == "DaemonSet" || f[0] == "ValidatingAdmissionPolicy" { // controllers of Kubernetes write their status
			version = f[5]
		}
		found[f[0]+" "+f[2]] = f[3] + " " + version
	}
	if exist != len(inventory) {
		t.Fatalf("of the %d objects of the inventory %d exist: %v", len(inventory), exist, found)
	}
	return found
}

// changed returns the names of the objects that differ.
func changed(before, after map[string]string) []string {
	var names []string
	for name := range maps.Keys(after) {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	for name := range maps.Keys(before) {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// nodeTraces is what agents can leave in the API about a node.
func nodeTraces(t *testing.T) string {
	t.Helper()
	out := kubectl(t, "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.labels} {.spec.taints} {.status.conditions[*].type}{"\n"}{end}`)
	return out
}

// clusterObjects are the names of all objects that charts of ours create, without those that
// the cluster makes itself.
func clusterObjects(t *testing.T) string {
	t.Helper()
	return kubectl(t, "get", "--all-namespaces", "-o", "name", "--selector=app.kubernetes.io/part-of=outrigger",
		"daemonsets,deployments,pods,services,serviceaccounts,configmaps,roles,rolebindings,clusterroles,clusterrolebindings,"+
			"runtimeclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,networkpolicies,podtemplates,leases")
}

// lacking returns the lines of a text that another one has not.
func lacking(text, other string) []string {
	have := strings.Split(other, "\n")
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(have, line) })
}
