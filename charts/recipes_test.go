package charts_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// recipes is the folder with the recipes for clusters with simulated GPUs. No test can run kind, k3s, minikube or the
// runners of GitHub, so these tests check what the recipes name.
const recipes = "../docs/examples/simulated/"

func recipe(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(recipes + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRecipesInstallTheSimulator renders the values of the recipes. They load all images of a release, or of "make images".
func TestRecipesInstallTheSimulator(t *testing.T) {
	for _, name := range []string{"github.yaml", "simulate.sh"} {
		values := regexp.MustCompile(`--set (\S+)`).FindStringSubmatch(recipe(t, name))
		if values == nil {
			t.Fatalf("%s sets no values", name)
		}
		got := imagesOf(t, set(t, values[1]))
		for _, want := range []string{"gpu-sim", "device-plugin", "orchestrator"} {
			if !slices.Contains(got, want) {
				t.Errorf("%s: the images are %v, without %s", name, got, want)
			}
		}
	}
	if !strings.Contains(recipe(t, "github.yaml"), `"images/[a-z-]*-$VERSION-debian12-amd64.tar$" SHA256SUMS`) {
		t.Error("the workflow does not name the archives of a release, as docs/releases.md does")
	}
}

// imagesOf returns the components of the images that the umbrella chart installs with values, in outrigger.dev.
func imagesOf(t *testing.T, values map[string]any) []string {
	t.Helper()
	text, err := release{chart: "outrigger", values: values}.render()
	if err != nil {
		t.Fatal(err)
	}
	stages, err := charts.Stages(charts.Release{Name: "gpu-operator", Namespace: "gpu-operator", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(values)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		text += s.Manifest
	}
	found := map[string]bool{}
	for _, image := range regexp.MustCompile(`image: "?outrigger\.dev/([a-z-]+):`).FindAllStringSubmatch(text, -1) {
		found[image[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestRecipesAreWellFormed parses the files.
func TestRecipesAreWellFormed(t *testing.T) {
	var cluster struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Name       string `json:"name"`
		Nodes      []struct {
			Role   string            `json:"role"`
			Labels map[string]string `json:"labels"`
		} `json:"nodes"`
	}
	if err := yaml.UnmarshalStrict([]byte(recipe(t, "kind.yaml")), &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Kind != "Cluster" || cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || len(cluster.Nodes) != 3 || cluster.Nodes[2].Labels["outrigger.dev/simulated-gpus"] == "" {
		t.Errorf("kind.yaml: %+v", cluster)
	}
	if script := recipe(t, "simulate.sh"); !strings.Contains(script, "--name "+cluster.Name+" ") {
		t.Errorf("simulate.sh loads the images into another cluster than %s", cluster.Name)
	}
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", recipes+"simulate.sh").CombinedOutput(); err != nil {
		t.Errorf("simulate.sh: %v: %s", err, out)
	}
	var workflow map[string]any
	if err := yaml.UnmarshalStrict([]byte(recipe(t, "github.yaml")), &workflow); err != nil {
		t.Error(err)
	}
}
