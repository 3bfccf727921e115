package kube_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/client-go/rest"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

// TestTheRemovalOfWhatFeatureDiscoveryLeft runs the commands of the documentation on a Node that
// people manage with kubectl apply, which takes the fields of its own earlier apply over.
func TestTheRemovalOfWhatFeatureDiscoveryLeft(t *testing.T) {
	page, err := os.ReadFile("../../docs/feature-discovery.md")
	assert.NilError(t, err)
	found := regexp.MustCompile("(?s)To remove the rest[^`]*(?:`[^`]+`[^`]*)*```sh\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("the page has no commands")
	}
	rc := apitest.New(t, nil).Config
	const node = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a"}},
		"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}`
	defer apitest.Script(t, rc, "kubectl delete node n")
	apitest.Script(t, rc, "echo '"+node+"' | kubectl apply -f -")
	for agent, labels := range map[string]map[string]string{
		"feature-discovery":          {"nvidia.com/gpu.count": "8", "shared": "1"},
		"feature-discovery-presence": {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.count": "8"},
		"another":                    {"shared": "1"},
	} {
		publish(t, rc, agent, labels)
	}
	const show = "kubectl get node n -o jsonpath='{.metadata.labels} {.spec.taints[*].key}'"
	if before := apitest.Script(t, rc, show); strings.Count(before, ":") != 4 {
		t.Fatalf("before: %s", before)
	}
	for range 2 {
		apitest.Script(t, rc, string(found[1]), "jq")
	}
	if got := apitest.Script(t, rc, show); !strings.HasPrefix(got, `{"shared":"1","zone":"a"} mine`) {
		t.Errorf("what is left: %s", got)
	}
}

// publish applies labels as an agent does.
func publish(t *testing.T, rc *rest.Config, agent string, labels map[string]string) {
	t.Helper()
	object := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n", "labels": labels}}
	c := apitest.Client(t, rc, "n", agent)
	assert.NilError(t, c.Apply(t.Context(), kube.Object{API: "v1", Resource: "nodes", Name: "n"}, object, nil))
}
