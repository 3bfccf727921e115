//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"outrigger.dev/test/e2e/stack"
)

// TestTheUmbrellaInstallsNodeFeatureDiscovery installs the umbrella as its package has it, with
// the chart of Node Feature Discovery, beside the orchestrator. When it is uninstalled, the labels
// of both are gone.
func TestTheUmbrellaInstallsNodeFeatureDiscovery(t *testing.T) {
	bare(t)
	umbrella := packagedUmbrella(t)
	helm := umbrellaHelm(t)
	if err := shared.LoadNFD(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := helm.Uninstall(stack.Umbrella); err != nil {
			t.Error(err)
		}
		// Helm leaves CRDs.
		if _, err := shared.Kubectl(ctx, "delete", "crds", "nodefeatures.nfd.k8s-sigs.io",
			"nodefeaturerules.nfd.k8s-sigs.io", "nodefeaturegroups.nfd.k8s-sigs.io", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
		if err := shared.MarkGPUNodes(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := helm.InstallChart(t.Context(), stack.Umbrella, umbrella, nfdValues()); err != nil {
		t.Fatal(err)
	}
	// The image of the project has all of its programs.
	kubectl(t, "-n", stack.OperatorNamespace, "set", "image", "daemonset/outrigger-node-feature-discovery-worker", "worker=outrigger.dev/nfd-worker:1")
	policyIsReady(t)
	eventually(t, "Node Feature Discovery has labelled all nodes", func() bool { return kernelLabels(t) == len(shared.Nodes()) })
	eventually(t, "it has found the GPUs", func() bool {
		return strings.Contains(labelsOf(t, gpuNode()), `"`+stack.PCILabel+`":"true"`)
	})
	if values := kubectl(t, "get", policy, "-o", "jsonpath={.spec.nfd}{.spec.node-feature-discovery}"); values != "" {
		t.Errorf("the policy has values of Node Feature Discovery: %s", values)
	}
	if err := helm.Uninstall(stack.Umbrella); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its labels are gone", func() bool { return kernelLabels(t) == 0 })
	if left := kubectl(t, "-n", stack.OperatorNamespace, "get", "daemonsets,deployments,jobs", "-o", "name"); left != "" {
		t.Errorf("objects are left:\n%s", left)
	}
}

// packagedUmbrella returns the chart as "make charts" packages it.
func packagedUmbrella(t *testing.T) *chart.Chart {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, args := range [][]string{
		{"tools/nfd-chart.sh", "get", filepath.Join(folder, "nfd-chart")},
		{"cp", "-rL", "charts/outrigger", folder},
		{"tools/nfd-chart.sh", "add", filepath.Join(folder, "nfd-chart"), filepath.Join(folder, "outrigger")},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "DOWNLOAD_GOPROXY=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	c, err := loader.LoadDir(filepath.Join(folder, "outrigger"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nfdValues enable Node Feature Discovery and feature discovery alone. The images of
// the tests name no user, and the chart refuses root.
func nfdValues() map[string]any {
	off := map[string]any{"enabled": false}
	user := map[string]any{"securityContext": map[string]any{"runAsUser": 65534}}
	return map[string]any{
		"toolkit": off, "devicePlugin": off, "validator": off,
		"nfd": map[string]any{"enabled": true},
		"node-feature-discovery": map[string]any{
			"image":  map[string]any{"repository": "outrigger.dev/nfd-master", "tag": "1"},
			"master": user, "worker": user, "gc": map[string]any{"enable": false},
		},
	}
}

// kernelLabels returns how many nodes have a label that only Node Feature Discovery writes.
func kernelLabels(t *testing.T) int {
	t.Helper()
	return strings.Count(kubectl(t, "get", "nodes", "-o", "name", "-l", "feature.node.kubernetes.io/kernel-version.full"), "node/")
}

func labelsOf(t *testing.T, node string) string {
	t.Helper()
	return kubectl(t, "get", "node", node, "-o", "jsonpath={.metadata.labels}")
}
