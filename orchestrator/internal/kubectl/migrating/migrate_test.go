// Package migrating_test runs the command migrate of the plugin. It is in a folder of its own because the
// plans are made by one goroutine, and take a third of the time without the race detector.
package migrating_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/kubectl"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/kube/apitest"
)

// command runs the plugin, and returns its exit code and its outputs.
func command(args ...string) (code int, stdout, stderr string) {
	var out, log strings.Builder
	code = kubectl.Main(append([]string{"kubectl-outrigger"}, args...), &out, &log)
	return code, out.String(), log.String()
}

func TestMigrateWithoutACluster(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	for _, c := range []struct {
		args   []string
		code   int
		output []string
	}{
		{[]string{"--registry", "r.example.org/gpu", "--write", values}, 0, []string{"devicePlugin.image: nvcr.io/nvidia/k8s-device-plugin:v0.19.3", "6. driver", "--values " + values}},
		{nil, 0, []string{"Missing: global.registry", "--write FILE"}},
		{[]string{"--only", "driver"}, 1, []string{"--from-file is for a plan"}},
		{[]string{"--driver", "on-reboot"}, 1, []string{"--from-file is for a plan"}},
		{[]string{"--by", "helm"}, 2, []string{`--by`, "labels", "clusterpolicy"}},
		{[]string{"--by", "clusterpolicy", "--nodes", "a=b"}, 1, []string{"--by clusterpolicy is for all nodes: remove --nodes"}},
		{[]string{"extra"}, 2, []string{`unexpected argument "extra"`}},
	} {
		code, stdout, stderr := command(append([]string{"migrate", "--from-file", "../../migrate/testdata/clusterpolicy-26.7.yaml"}, c.args...)...)
		for _, want := range c.output {
			if code != c.code || !strings.Contains(stdout+stderr, want) {
				t.Errorf("%q: exit code %d, want %q in:\n%s%s", c.args, code, want, stdout, stderr)
			}
		}
	}
	text, err := os.ReadFile(values)
	if err != nil {
		t.Fatal(err)
	}
	var written struct {
		Global struct{ Registry string }
		Gfd    struct{ NodeSelector map[string]string }
	}
	if err := yaml.Unmarshal(text, &written); err != nil || written.Global.Registry != "r.example.org/gpu" || written.Gfd.NodeSelector["nvidia.com/gpu.deploy.gpu-feature-discovery"] != "outrigger" {
		t.Errorf("values: %v, %+v", err, written)
	}
}

// helmRecord returns the data of the Secret of a Helm release.
func helmRecord(t *testing.T, text string) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	record := base64.StdEncoding.EncodeToString(packed.Bytes())
	return base64.StdEncoding.EncodeToString([]byte(record))
}

// TestMigrateChangesNothingWithoutYes runs the command on a cluster with a node that NVIDIA's GPU Operator labels.
func TestMigrateChangesNothingWithoutYes(t *testing.T) {
	c := clustertest.New(t)
	create := func(kind, api string, rest map[string]any) {
		rest["kind"], rest["apiVersion"] = kind, api
		c.Create(&unstructured.Unstructured{Object: rest})
	}
	const label = "nvidia.com/gpu.deploy.dcgm-exporter"
	create("Node", "v1", map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{label: "true", "nvidia.com/gpu.deploy.driver": "pre-installed"}}})
	config := apitest.Kubeconfig(t, c.REST)
	if code, _, stderr := command("--kubeconfig", config, "migrate"); code != 1 || !strings.Contains(stderr, "no ClusterPolicy, NVIDIADriver or GPUCluster of nvidia.com") {
		t.Errorf("without NVIDIA's GPU Operator: exit code %d, %s", code, stderr)
	}
	create("CustomResourceDefinition", "apiextensions.k8s.io/v1", map[string]any{
		"metadata": map[string]any{"name": "clusterpolicies.nvidia.com"},
		"spec": map[string]any{
			"group": "nvidia.com", "scope": "Cluster", "names": map[string]any{"kind": "ClusterPolicy", "plural": "clusterpolicies"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	})
	text, err := os.ReadFile("../../migrate/testdata/clusterpolicy-24.3.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy := map[string]any{}
	if err := yaml.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedStringMap(policy, map[string]string{"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "default"}, "metadata", "annotations"); err != nil {
		t.Fatal(err)
	}
	c.Create(&unstructured.Unstructured{Object: policy})
	if _, stdout, _ := command("--kubeconfig", config, "migrate"); !strings.Contains(stdout, "Not read: read the Helm release default/gpu-operator: it has no Secret") {
		t.Errorf("without the Helm release:\n%s", stdout)
	}
	create("Secret", "v1", map[string]any{
		"metadata": map[string]any{"name": "sh.helm.release.v1.gpu-operator.v1", "namespace": "default", "labels": map[string]any{"owner": "helm", "status": "deployed", "name": "gpu-operator"}},
		"type":     "helm.sh/release.v1", "data": map[string]any{"release": helmRecord(t, `{"config": {"nfd": {"enabled": true}, "devicePlugin": {"config": {"create": true}, "version": "v0.1.0"}}}`)},
	})
	node := func() string {
		return c.Get(model.Ref{APIVersion: "v1", Kind: "Node", Name: "a"}).GetResourceVersion()
	}
	before := node()
	for args, want := range map[string]string{
		"":                                 "dcgm-exporter      1       0",
		"--nodes x=y":                      "nfd.enabled: true → false",
		"--final":                          "Read: ClusterPolicy cluster-policy of nvidia.com, the values of the Helm release default/gpu-operator",
		"--timeout 1m":                     "devicePlugin.image: nvcr.io/nvidia/k8s-device-plugin:v0.14.0-ubi8",
		"--only dcgm-exporter":             "Nothing has been changed: add --yes.",
		"--undo":                           "No node is left to hand over.",
		"--only device-plugin":             "nodes   none",
		"--undo --only toolkit":            "Hand-over of toolkit back to NVIDIA's GPU Operator",
		"--only driver --evict":            "nodes   none",
		"--by clusterpolicy --only gfd":    "nodes   none",
		"--by clusterpolicy --only driver": "first   driver: all nodes would lose their driver at the same time",
		"--driver on-reboot --only driver": "way     each node at its next reboot",
		"--driver on-reboot --undo":        "No node is left to hand over.",
		"--registry r.example/a":           "driver.enabled: true → false",
	} {
		code, stdout, stderr := command(append([]string{"--kubeconfig", config, "migrate"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, want %q in:\n%s%s", args, code, want, stdout, stderr)
		}
	}
	if _, _, stderr := command("--kubeconfig", config, "migrate", "--final"); !strings.Contains(stderr, "Warning: with the final values, Outrigger's agents run on all nodes, and NVIDIA's GPU Operator still has dcgm-exporter (nodes: 1)") {
		t.Errorf("--final before the hand-overs: %s", stderr)
	}
	if code, stdout, stderr := command("--kubeconfig", config, "migrate", "--only", "dcgm-exporter", "--yes"); code != 0 || !strings.Contains(stdout, "neither NVIDIA's GPU Operator nor Outrigger has a DaemonSet") {
		t.Errorf("without DaemonSets: exit code %d, %s%s", code, stdout, stderr)
	}
	// Outrigger is not installed, and NVIDIA's operator is.
	labels := map[string]any{"app": "nvidia-dcgm-exporter"}
	create("DaemonSet", "apps/v1", map[string]any{
		"metadata": map[string]any{"name": "nvidia-dcgm-exporter", "namespace": "default"},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"nodeSelector": map[string]any{label: "true"}, "containers": []any{map[string]any{"name": "main", "image": "x"}}},
		}},
	})
	if code, _, stderr := command("--kubeconfig", config, "migrate", "--yes"); code != 1 || !strings.Contains(stderr, "install the chart outrigger") {
		t.Errorf("without Outrigger: exit code %d, %s", code, stderr)
	}
	if node() != before {
		t.Error("the node has been changed")
	}
}
