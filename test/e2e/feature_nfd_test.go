//go:build e2e

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/e2e/stack"
)

// nfdFolder is where Node Feature Discovery reads features of others.
const nfdFolder = "/etc/kubernetes/node-feature-discovery/features.d"

// nfd installs Node Feature Discovery until the test ends.
func nfd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			out, err := shared.Kubectl(ctx, "get", "nodefeatures", "--all-namespaces", "--show-labels")
			t.Logf("what the workers log (error %v):\n%s", err, out)
			for _, part := range []string{"deployment/nfd-master", "daemonset/nfd-worker"} {
				out, err := shared.Kubectl(ctx, "-n", stack.NFDNamespace, "logs", part, "--all-pods", "--prefix", "--tail=60")
				t.Logf("the log of %s (error %v):\n%s", part, err, out)
			}
		}
		if err := shared.RemoveNFD(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := shared.InstallNFD(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNodeFeatureDiscoveryMakesTheSameLabels(t *testing.T) {
	api := discovery(t)
	want := gpuLabels(nodeIs(t, api, gpuNode(), "labels are there", counted))
	if len(want) < 20 {
		t.Errorf("the agent has written only %v", want)
	}
	api = bare(t)
	nfd(t)
	nodeIs(t, api, gpuNode(), "Node Feature Discovery has found the GPUs", func(n stack.Node) bool {
		return n.Labels[stack.PCILabel] == "true" && slices.Equal(n.Owners[stack.PCILabel], []string{"nfd-master"})
	})
	t.Run("nfd-file", func(t *testing.T) { madeByNFD(t, api, "nfd-file", want) })
	nodeIs(t, api, gpuNode(), "the labels of the file are gone", func(n stack.Node) bool { return !counted(n) })
	t.Run("nodefeature", func(t *testing.T) {
		madeByNFD(t, api, "nodefeature", want)
		t.Run("an agent's token writes NodeFeatures of its node only", anAgentsTokenWritesNodeFeaturesOfItsNodeOnly)
	})
}

// counted reports whether feature discovery has labelled a Node.
func counted(n stack.Node) bool { return n.Labels["nvidia.com/gpu.count"] != "" }

// madeByNFD installs feature discovery with this output until the test ends, and compares the labels that Node Feature
// Discovery makes with those that feature discovery writes itself.
func madeByNFD(t *testing.T, api *stack.API, output string, want map[string]string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		// A running agent would write its file again.
		if err := shared.Uninstall(ctx, "feature-discovery"); err != nil {
			t.Error(err)
		}
		if _, err := shared.Exec(ctx, gpuNode(), "rm", "-rf", nfdFolder); err != nil {
			t.Error(err)
		}
	})
	installDiscovery(t, false, "publish="+output)
	n := nodeIs(t, api, gpuNode(), "labels are there", counted)
	if diff := cmp.Diff(want, gpuLabels(n)); diff != "" {
		t.Errorf("labels of %s (-written to the Node +made by Node Feature Discovery):\n%s", output, diff)
	}
	for key := range want {
		owner := "nfd-master"
		if key == "nvidia.com/gpu.present" || strings.HasPrefix(key, "nvidia.com/gpu.deploy.") {
			// They say that a GPU is on the bus, and are the presence part's.
			owner = presence
		}
		if owners := n.Owners[key]; !slices.Equal(owners, []string{owner}) {
			t.Errorf("label %s is of %v, want it of %s alone", key, owners, owner)
		}
	}
	// What Node Feature Discovery found itself is its own.
	for key, owners := range n.Owners {
		if slices.Contains(owners, "nfd-master") && len(owners) > 1 {
			t.Errorf("label %s of Node Feature Discovery is also of %v", key, owners)
		}
	}
	nodeIs(t, api, gpuNode(), "the node is ready for GPU pods", readyIs("True", ""))
}

func anAgentsTokenWritesNodeFeaturesOfItsNodeOnly(t *testing.T) {
	agent := account(t, podOf(t, featureDiscovery, gpuNode()))
	other := shared.Nodes()[0]
	stuck := nodeFeature(gpuNode(), gpuNode(), object{"labels": object{"nvidia.com/gpu.count": "3"}})
	stuck["metadata"].(object)["finalizers"] = []string{"test.outrigger.dev/forged"}
	for name, r := range map[string]struct {
		object object
		denied string
	}{
		"labels of its node":               {object: nodeFeature(gpuNode(), gpuNode(), object{"labels": object{"nvidia.com/gpu.count": "3"}})},
		"labels of another node":           {nodeFeature(other, other, object{"labels": object{"nvidia.com/gpu.count": "3"}}), byPolicy},
		"its node's name for another node": {nodeFeature(gpuNode(), other, object{"labels": object{"nvidia.com/gpu.count": "3"}}), byPolicy},
		"a foreign label":                  {nodeFeature(gpuNode(), gpuNode(), object{"labels": object{"nvidia.com/mig.config": "x"}}), byPolicy},
		"an object that cannot go":         {stuck, byPolicy},
		"a feature":                        {nodeFeature(gpuNode(), gpuNode(), object{"features": object{"flags": object{"cpu.model": object{"elements": object{"x": object{}}}}}}), byPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/" + stack.Namespace + "/nodefeatures/" + r.object["metadata"].(object)["name"].(string)
			check(t, agent.Patch(t.Context(), path+"?dryRun=All&force=true&fieldManager="+featureDiscovery, stack.ServerSideApply, r.object), r.denied)
		})
	}
}

// nodeFeature is a NodeFeature by the name for one node, which says that it is of
// another.
func nodeFeature(named, of string, spec object) object {
	return object{
		"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature",
		"metadata": object{"name": "nvidia-features-for-" + named, "labels": object{"nfd.node.kubernetes.io/node-name": of}},
		"spec":     spec,
	}
}
