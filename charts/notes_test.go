package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"outrigger.dev/charts/chartstest"
)

// notes returns what Helm prints after the installation of a chart.
func notes(t *testing.T, name, kubernetes string, values map[string]any) string {
	t.Helper()
	c, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := execute(c, Release{Name: "outrigger", Namespace: "gpu", Kubernetes: kubernetes, Values: chartstest.WithRegistry(values)})
	if err != nil {
		t.Fatal(err)
	}
	return files[name+"/templates/NOTES.txt"]
}

// TestNotesNameValuesOfNVIDIA installs charts with values files for NVIDIA's chart.
// The notes name each value that asks for something and that this chart's own values.yaml lacks.
func TestNotesNameValuesOfNVIDIA(t *testing.T) {
	cases, err := filepath.Glob("testdata/*/nvidia-*.values.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("find values: %v, %v", cases, err)
	}
	for _, path := range cases {
		chart := filepath.Base(filepath.Dir(path))
		t.Run(strings.TrimPrefix(path, "testdata/"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			values, err := loader.LoadValues(strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			c, err := Load(chart)
			if err != nil {
				t.Fatal(err)
			}
			got := notes(t, chart, "1.37.0", values)
			for key, value := range values {
				if _, own := c.Values[key]; !own && asks(value) && !strings.Contains(got, "\n  "+key+": ") {
					t.Errorf("the notes do not say what %s means here:\n%s", key, got)
				}
			}
		})
	}
}

func TestNotesWithoutValuesOfNVIDIA(t *testing.T) {
	for _, chart := range []string{"device-plugin", "feature-discovery"} {
		if got := notes(t, chart, "1.37.0", map[string]any{}); strings.Contains(got, "NVIDIA's chart") {
			t.Errorf("%s: the notes name values that are not set:\n%s", chart, got)
		}
	}
}

// TestNotesNameTheStrategyBefore129 has kubelets that do not pass CDI devices on.
func TestNotesNameTheStrategyBefore129(t *testing.T) {
	const note = "gives containers no CDI devices by default"
	for kubernetes, want := range map[string]bool{"1.26.0": true, "1.28.15-eks-1": true, "1.29.0": false, "1.29.0-rc.1": false} {
		got := notes(t, "device-plugin", kubernetes, map[string]any{})
		if strings.Contains(got, note) != want {
			t.Errorf("Kubernetes %s: notes say %q: %t, want %t", kubernetes, note, !want, want)
		}
	}
}

// TestDefaultStrategy has neither a value nor a config that chooses the strategy.
func TestDefaultStrategy(t *testing.T) {
	c, err := Load("device-plugin")
	if err != nil {
		t.Fatal(err)
	}
	for kubernetes, want := range map[string]string{"1.28.0": "cdi-annotations", "1.29.0": "cdi-cri"} {
		out, err := Render(c, Release{Name: "a", Namespace: "b", Kubernetes: kubernetes, Values: chartstest.WithRegistry(nil)})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out, "\n")
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "name: DEFAULT_DEVICE_LIST_STRATEGY") })
		if i < 0 || strings.TrimSpace(lines[i+1]) != "value: "+want {
			t.Errorf("Kubernetes %s: the default strategy is in line %d, want %s:\n%s", kubernetes, i, want, out)
		}
	}
}

// TestTheTestOfTheDevicePlugin renders what "helm test" runs.
func TestTheTestOfTheDevicePlugin(t *testing.T) {
	c, err := Load("device-plugin")
	if err != nil {
		t.Fatal(err)
	}
	r := Release{Name: "outrigger", Namespace: "gpu", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(map[string]any{
		"test": map[string]any{"resource": "nvidia.com/sharedgpu", "image": map[string]any{"repository": "mirror/vectoradd"}},
	})}
	files, err := execute(c, r)
	if err != nil {
		t.Fatal(err)
	}
	got := files["device-plugin/templates/objects.yaml"]
	for _, want := range []string{"helm.sh/hook: test", "image: mirror/vectoradd:" + c.Metadata.AppVersion + "-debian12", "nvidia.com/sharedgpu: 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	rendered, err := Render(c, r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rendered, "vectoradd") {
		t.Error("the test is installed with the release")
	}
}

// TestTheCleanupOfTheOrchestrator renders the hook that "helm uninstall" runs.
func TestTheCleanupOfTheOrchestrator(t *testing.T) {
	c, err := Load("orchestrator")
	if err != nil {
		t.Fatal(err)
	}
	for enabled, want := range map[bool]int{true: 1, false: 0} {
		files, err := execute(c, Release{
			Name: "outrigger", Namespace: "gpu-operator", Kubernetes: "1.37.0",
			Values: chartstest.WithRegistry(map[string]any{"cleanup": map[string]any{"enabled": enabled, "timeoutSeconds": 120}}),
		})
		if err != nil {
			t.Fatal(err)
		}
		got := files["orchestrator/templates/cleanup.yaml"]
		for _, text := range []string{"helm.sh/hook: pre-delete", "serviceAccountName: outrigger-orchestrator", "- delete", "- --verify", "- --timeout=90s", "activeDeadlineSeconds: 120"} {
			if strings.Count(got, text) != want {
				t.Errorf("cleanup.enabled=%t: %q occurs %d times, want %d:\n%s", enabled, text, strings.Count(got, text), want, got)
			}
		}
	}
}

// TestTheNotesSayHowToUninstall has the releases whose agents need their permissions when they are deleted: without the orchestrator, the
// selector in the notes has to match all DaemonSets of the release.
func TestTheNotesSayHowToUninstall(t *testing.T) {
	for chart, values := range map[string]string{
		"feature-discovery": "{}",
		"mig-manager":       "{}",
		"driver-loader":     "{}",
		umbrella:            "{orchestrator: {enabled: false}}",
	} {
		got := notes(t, chart, "1.37.0", valuesFrom(t, values))
		const selector = "app.kubernetes.io/part-of=outrigger,app.kubernetes.io/instance=outrigger"
		for _, want := range []string{"delete daemonsets --cascade=foreground \\\n    --selector " + selector + "\n", "\n  helm -n gpu uninstall outrigger\n"} {
			if !strings.Contains(got+"\n", want) {
				t.Errorf("%s: the notes lack %q:\n%s", chart, want, got)
			}
		}
		c, err := Load(chart)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Render(c, Release{Name: "outrigger", Namespace: "gpu", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(valuesFrom(t, values))})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range documents(out) {
			labels, _, _ := strings.Cut(object, "\nspec:\n")
			for label := range strings.SplitSeq(selector, ",") {
				if strings.Contains(object, "\nkind: DaemonSet\n") && !strings.Contains(labels+"\n", "\n    "+strings.Replace(label, "=", ": ", 1)+"\n") {
					t.Errorf("%s: a DaemonSet lacks the label %s:\n%s", chart, label, labels)
				}
			}
		}
	}
	if got := notes(t, umbrella, "1.37.0", nil); strings.Contains(got, "delete daemonsets") {
		t.Errorf("with the orchestrator, the notes tell people to delete DaemonSets:\n%s", got)
	}
}

// TestTheHooksOfTheDefinition renders the Jobs that apply and delete the CRD, and their rights.
func TestTheHooksOfTheDefinition(t *testing.T) {
	c, err := Load("orchestrator")
	if err != nil {
		t.Fatal(err)
	}
	const crd = "resourceNames: [clusterpolicies.outrigger.dev]\n    verbs: "
	upgrade := []string{"helm.sh/hook: pre-install,pre-upgrade,pre-rollback\n", "- apply-crd\n", crd + "[get, create, patch]\n", "resources: [clusterpolicies]\n    verbs: [list, patch]\n"}
	cleanup := []string{"helm.sh/hook: post-delete\n", "- delete-crd\n", crd + "[delete]\n", "resources: [clusterpolicies]\n    verbs: [list]\n"}
	for name, c2 := range map[string]struct {
		values    map[string]any
		has, lack []string
	}{
		"the defaults":   {nil, upgrade, cleanup},
		"both":           {map[string]any{"cleanupCRD": true}, append(slices.Clone(upgrade), cleanup...), nil},
		"neither":        {map[string]any{"upgradeCRD": false}, nil, append(slices.Clone(upgrade), cleanup...)},
		"other accounts": {map[string]any{"rbac": map[string]any{"create": false}}, upgrade[:2], append(slices.Clone(upgrade[2:]), "ClusterRole")},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := execute(c, Release{Name: "outrigger", Namespace: "gpu-operator", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(c2.values)})
			if err != nil {
				t.Fatal(err)
			}
			got := files["orchestrator/templates/crd.yaml"]
			for _, text := range c2.has {
				if !strings.Contains(got, text) {
					t.Errorf("it lacks %q:\n%s", text, got)
				}
			}
			for _, text := range c2.lack {
				if strings.Contains(got, text) {
					t.Errorf("it has %q:\n%s", text, got)
				}
			}
			if strings.Contains(got, "serviceAccountName: outrigger-orchestrator\n") || strings.Contains(got, "- '*'") {
				t.Errorf("it has the account of the orchestrator:\n%s", got)
			}
		})
	}
}
