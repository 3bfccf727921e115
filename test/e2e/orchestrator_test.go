//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
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

// TestOrchestrator installs everything with "helm install" of one chart, breaks and changes it,
// and removes it. The subtests stand on each other.
func TestOrchestrator(t *testing.T) {
	for _, chart := range []string{"device-plugin", "feature-discovery", "container-toolkit"} {
		if err := shared.Uninstall(t.Context(), chart); err != nil {
			t.Fatal(err)
		}
	}
	labelPools(t)
	traces, files := nodeTraces(t), onGPUNode(t, hostFiles)
	helm := helmUntilTheEnd(t)
	t.Run("it stops at the agent that waits for a driver", func(t *testing.T) { installedWithoutDriver(t, helm) })
	policyIsReady(t)
	t.Run("both validations have passed", validationsHavePassed)
	t.Run("the plugin of kubectl shows the cluster", thePluginShowsTheCluster)
	t.Run("validations on request", validationsOnRequest)
	t.Run("doctor explains pods", doctorExplainsPods)
	t.Run("an archive answers as the cluster", anArchiveAnswersAsTheCluster)
	t.Run("roll-outs are quiet", rollOutsAreQuiet)
	t.Run("one Event tells of an incident", incidentsAreTold)
	t.Run("the first cause comes first", theFirstCauseComesFirst)
	t.Run("a bad image is named until it is mended", aBadImageIsNamed)
	t.Run("wrong values change nothing", wrongValuesChangeNothing)
	t.Run("only what changes is written", onlyWhatChangesIsWritten)
	t.Run("what others change is repaired", driftIsRepaired)
	t.Run("one of two orchestrators works", oneOfTwoWorks)
	t.Run("a second release is refused", aSecondReleaseIsRefused)
	t.Run("an orchestrator that is killed goes on", aKilledOrchestratorGoesOn)
	t.Run("Helm alone renders the same objects", helmRendersTheSame)
	t.Run("what is deleted by mistake is restored", func(t *testing.T) { deletionsAreRestored(t, helm) })
	t.Run("each kind of node has its driver", func(t *testing.T) { eachKindOfNodeHasItsDriver(t, helm) })
	t.Run("pools select their nodes", func(t *testing.T) {
		// The release has the accounts and the rights of the agents of each pool.
		values, err := json.Marshal(testPools())
		if err != nil {
			t.Fatal(err)
		}
		var pools []any
		if err := json.Unmarshal(values, &pools); err != nil {
			t.Fatal(err)
		}
		if err := helm.Install(t.Context(), stack.Umbrella, map[string]any{"pools": pools}); err != nil {
			t.Fatal(err)
		}
		poolsSelectTheirNodes(t)
	})
	t.Run("pools that overlap are refused by name", overlappingPoolsAreRefused)
	t.Run("the layout of GPUs follows a label", layoutsFollowALabel)
	t.Run("nothing is left after helm uninstall", func(t *testing.T) {
		if err := helm.Uninstall(stack.Umbrella); err != nil {
			describeOrchestrator(t)
			t.Fatal(err)
		}
		eventually(t, "no object is left", func() bool { return clusterObjects(t) == "" })
		kubectl(t, "label", "node", gpuNode(), migConfig+"-")
		if now := nodeTraces(t); now != traces {
			t.Errorf("the nodes were\n%s\nand are\n%s", traces, now)
		}
		// Agents of tests before, whose rights were deleted before they ended, have left files that
		// these agents remove.
		if more := lacking(onGPUNode(t, hostFiles), files); len(more) > 0 {
			t.Errorf("the node has more files than before: %q", more)
		}
		out, err := shared.Run(t.Context(), "orchestrator", "delete", "--verify", "--kubeconfig", shared.Kubeconfig())
		if err != nil || !strings.Contains(out, "nothing is left on the nodes") {
			t.Errorf("orchestrator delete --verify: %v: %s", err, out)
		}
	})
}

// layoutsFollowALabel divides all GPUs and makes them whole again, so that the MIG manager has
// written what it writes.
func layoutsFollowALabel(t *testing.T) {
	t.Cleanup(func() { kubectlCleanup(t, "label", "node", gpuNode(), migConfig+"-") })
	for _, layout := range []struct {
		name    string
		devices int
	}{{"all-1g.10gb", 7 * gpus}, {"all-disabled", gpus}} {
		askForLayout(t, layout.name)
		allocatable(t, layout.devices, limit)
	}
}

func validationsHavePassed(t *testing.T) {
	for _, pod := range []string{"nvidia-driver-validation", "nvidia-device-plugin-validation"} {
		if phase := kubectl(t, "-n", stack.Namespace, "get", "pod", pod, "-o", "jsonpath={.status.phase}"); phase != "Succeeded" {
			t.Errorf("%s is %s, want Succeeded", pod, phase)
		}
		log := kubectl(t, "-n", stack.Namespace, "logs", pod)
		if !strings.Contains(log, "Test PASSED") || !strings.HasSuffix(log, "Done") {
			t.Errorf("the log of %s is\n%s", pod, log)
		}
	}
}

func aBadImageIsNamed(t *testing.T) {
	before := versions(t)
	patchPolicy(t, `{"spec":{"devicePlugin":{"version":"26.11.0-missing"}}}`)
	var p stack.Policy
	eventually(t, "the status names node, cause and fix", func() bool {
		p = readPolicy(t)
		return p.Current() && slices.ContainsFunc(p.Status.Problems, func(found stack.Problem) bool {
			return found.Stage == "device-plugin" && strings.Contains(found.Cause, "Image") &&
				slices.Contains(found.Examples, gpuNode()) && found.Fix != ""
		})
	})
	if p.Status.State == "ready" {
		t.Error("the policy is ready, although no node has the device plugin")
	}
	for _, s := range p.Status.Stages {
		if (s.Name == "container-toolkit" || s.Name == "feature-discovery") && s.State != "Ready" {
			t.Errorf("stage %s is %s: %s", s.Name, s.State, s.Message)
		}
	}
	patchPolicy(t, `{"spec":{"devicePlugin":{"version":null}}}`)
	policyIsReady(t)
	if names := changed(before, versions(t)); !slices.Equal(names, []string{"DaemonSet outrigger-device-plugin"}) {
		t.Errorf("changed %v, want only the DaemonSet", names)
	}
	allocatable(t, gpus, limit)
}

func wrongValuesChangeNothing(t *testing.T) {
	before := versions(t)
	_, err := shared.Kubectl(t.Context(), "patch", "gpupolicy/"+stack.PolicyName, "--type=merge", "-p", `{"spec":{"devicePlugin":{"toleration":[]}}}`)
	if err == nil || !strings.Contains(err.Error(), "unknown keys in spec: devicePlugin.toleration;") {
		t.Errorf("a typo in a key: %v", err)
	}
	patchPolicy(t, `{"spec":{"devicePlugin":{"version":"not a tag"}}}`)
	eventually(t, "the status names the value and the fix", func() bool {
		p := readPolicy(t)
		return p.Current() && slices.ContainsFunc(p.Status.Conditions, func(c stack.Condition) bool {
			return strings.Contains(c.Message, `devicePlugin.version: "not a tag" is not a tag of an image; set it to`)
		})
	})
	if names := changed(before, versions(t)); len(names) > 0 {
		t.Errorf("changed %v, want nothing", names)
	}
	patchPolicy(t, `{"spec":{"devicePlugin":{"version":null}}}`)
	policyIsReady(t)
}

func onlyWhatChangesIsWritten(t *testing.T) {
	before := versions(t)
	patchPolicy(t, `{"spec":{"gfd":{"podLabels":{"example.com/team":"gpu"}}}}`)
	eventually(t, "the DaemonSet has the label", func() bool {
		return strings.Contains(kubectl(t, "-n", stack.Namespace, "get", "daemonset/outrigger-feature-discovery", "-o", "jsonpath={.spec.template.metadata.labels}"), "example.com/team")
	})
	policyIsReady(t)
	for _, name := range changed(before, versions(t)) {
		if !strings.HasPrefix(name, "DaemonSet outrigger-feature-discovery") {
			t.Errorf("%s changed", name)
		}
	}
}

func driftIsRepaired(t *testing.T) {
	kubectl(t, "-n", stack.Namespace, "delete", "service/nvidia-dcgm-exporter")
	kubectl(t, "-n", stack.Namespace, "patch", "daemonset/outrigger-device-plugin", "--type=merge", "-p", `{"spec":{"template":{"spec":{"priorityClassName":""}}}}`)
	eventually(t, "Service and DaemonSet are as they were", func() bool {
		_, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "get", "service/nvidia-dcgm-exporter")
		class := kubectl(t, "-n", stack.Namespace, "get", "daemonset/outrigger-device-plugin", "-o", "jsonpath={.spec.template.spec.priorityClassName}")
		return err == nil && class == "system-node-critical"
	})
	policyIsReady(t)
}

func oneOfTwoWorks(t *testing.T) {
	kubectl(t, "-n", stack.OperatorNamespace, "scale", "deployment/outrigger-orchestrator", "--replicas=2")
	t.Cleanup(func() {
		kubectlCleanup(t, "-n", stack.OperatorNamespace, "scale", "deployment/outrigger-orchestrator", "--replicas=1")
	})
	kubectl(t, "-n", stack.OperatorNamespace, "rollout", "status", "deployment/outrigger-orchestrator", "--timeout=4m")
	holder := kubectl(t, "-n", "default", "get", "lease/outrigger", "-o", "jsonpath={.spec.holderIdentity}")
	kubectl(t, "-n", stack.OperatorNamespace, "delete", "pod", "--grace-period=0", "--force", strings.SplitN(holder, "_", 2)[0])
	eventually(t, "the other one works", func() bool {
		now := kubectl(t, "-n", "default", "get", "lease/outrigger", "-o", "jsonpath={.spec.holderIdentity}")
		return now != "" && now != holder
	})
	kubectl(t, "-n", stack.Namespace, "delete", "service/nvidia-dcgm-exporter")
	eventually(t, "it repairs what others change", func() bool {
		_, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "get", "service/nvidia-dcgm-exporter")
		return err == nil
	})
}

// aSecondReleaseIsRefused installs the orchestrator again, in another namespace.
func aSecondReleaseIsRefused(t *testing.T) {
	helm, err := shared.Helm("default")
	if err != nil {
		t.Fatal(err)
	}
	err = helm.Install(t.Context(), "orchestrator", map[string]any{})
	if err == nil || !strings.Contains(err.Error(), `Lease "outrigger" in namespace "default" exists`) {
		t.Errorf("helm install: %v", err)
	}
	if err == nil {
		if err := helm.Uninstall("orchestrator"); err != nil {
			t.Error(err)
		}
	}
}

// aKilledOrchestratorGoesOn kills the orchestrator again and again during a change.
func aKilledOrchestratorGoesOn(t *testing.T) {
	for i := range 3 {
		patchPolicy(t, fmt.Sprintf(`{"spec":{"devicePlugin":{"podLabels":{"example.com/round":"%d"}},"toolkit":{"podLabels":{"example.com/round":"%d"}}}}`, i, i))
		kubectl(t, "-n", stack.OperatorNamespace, "delete", "pod", "--grace-period=0", "--force", "--selector=app.kubernetes.io/name=orchestrator")
	}
	eventually(t, "both DaemonSets have the last change", func() bool {
		out := kubectl(t, "-n", stack.Namespace, "get", "daemonsets", "-o", "jsonpath={.items[*].spec.template.metadata.labels}")
		return strings.Count(out, `"example.com/round":"2"`) == 2
	})
	policyIsReady(t)
}

// helmRendersTheSame compares what is in the cluster with what "helm install" without the
// orchestrator would write, except who manages it.
func helmRendersTheSame(t *testing.T) {
	chart, err := charts.Load(stack.Umbrella)
	if err != nil {
		t.Fatal(err)
	}
	values := readPolicy(t).Spec
	values["orchestrator"] = map[string]any{"enabled": false}
	rendered, err := charts.Render(chart, charts.Release{Name: stack.Umbrella, Namespace: stack.OperatorNamespace, Kubernetes: "v1.37.1", Values: chartstest.WithRegistry(values)})
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for text := range strings.SplitSeq(rendered, "\n---\n") {
		_, kind, _ := strings.Cut("\n"+text, "\nkind: ")
		kind, _, _ = strings.Cut(kind, "\n")
		switch {
		// The orchestrator makes pods of templates, and does not apply them. It uses a Namespace that
		// exists as it is.
		case kind == "PodTemplate" || kind == "Namespace":
			continue
		case !charts.InRelease(kind):
			text = strings.ReplaceAll(text, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: outrigger")
		}
		documents = append(documents, text)
	}
	cmd := shared.KubectlCommand(t.Context(), "diff", "--server-side", "--field-manager=outrigger", "--force-conflicts", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(documents, "\n---\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("Helm would change: %v\n%s", err, out)
	}
}
