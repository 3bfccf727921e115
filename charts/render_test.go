package charts_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the charts render into testdata")

// helm returns the path of the helm that the charts are made for.
func helm(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("OUTRIGGER_BIN")
	if dir == "" {
		dir = "../bin"
	}
	path, err := filepath.Abs(filepath.Join(dir, "helm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("bin/helm is missing: make tools")
	}
	return path
}

// render runs "helm template" and returns the objects, or why there are none.
func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helm(t), append([]string{"template", "outrigger", "--namespace", "gpu-operator-resources"}, args...)...)
	// Nothing of the machine's own helm plays a part.
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return complaints.String(), err
	}
	return out.String(), nil
}

// TestCharts renders each chart with each file of values in testdata and
// compares the objects with the golden file beside it.
func TestCharts(t *testing.T) {
	cases, err := filepath.Glob("testdata/*/*.values.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("find cases: %v, %v", cases, err)
	}
	for _, values := range cases {
		chart := filepath.Base(filepath.Dir(values))
		t.Run(strings.TrimSuffix(values[len("testdata/"):], ".values.yaml"), func(t *testing.T) {
			got, err := render(t, chart, "--values", values)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, got)
			}
			isAsCommitted(t, strings.TrimSuffix(values, ".values.yaml")+".golden", got)
		})
	}
}

// isAsCommitted compares what was rendered with a file, which -update writes.
func isAsCommitted(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if line, w, g := firstDifference(string(want), got); line > 0 {
		t.Errorf("%s:%d (-want +got), write it anew with: go test ./... -update\n-%s\n+%s", path, line, w, g)
	}
}

// firstDifference returns the first line, counted from 1, that differs, or 0.
func firstDifference(want, got string) (line int, w, g string) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		w, g = "(end)", "(end)"
		if i < len(a) {
			w = a[i]
		}
		if i < len(b) {
			g = b[i]
		}
		if w != g {
			return i + 1, w, g
		}
	}
	return 0, "", ""
}

func TestTheUserCanReplaceAVariable(t *testing.T) {
	for chart, variable := range map[string]string{"device-plugin": "MPS_ROOT", "feature-discovery": "PROC_ROOT"} {
		out, err := render(t, chart, "--set", "env[0].name="+variable+",env[0].value=/elsewhere")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Count(out, "name: "+variable) != 1 || !strings.Contains(out, "/elsewhere") {
			t.Errorf("%s is not there once:\n%s", variable, out)
		}
	}
}

func TestChartsPassHelmLint(t *testing.T) {
	for _, name := range names(t) {
		if out, err := exec.CommandContext(t.Context(), helm(t), "lint", "--strict", name).CombinedOutput(); err != nil {
			t.Errorf("helm lint %s: %v\n%s", name, err, out)
		}
	}
}
