//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
	"outrigger.dev/test/e2e/stack"
)

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
	t.Run("wrong values change nothing", wrongValuesChangeNothing)
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
