package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertTests say what the alerts do with metrics.
const alertTests = "testdata/dcgm-exporter/alerts.test.yaml"

// ruleGroup is what the tests read of a group in a PrometheusRule.
type ruleGroup struct {
	Name  string      `json:"name"`
	Rules []alertRule `json:"rules"`
}

// alertRule is an alert or, with a name of a record, an expression.
type alertRule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TestAlerts runs the alerts of the chart dcgm-exporter on series of metrics. Each of them must fire in
// one of the tests, and be quiet in another.
func TestAlerts(t *testing.T) {
	dir := t.TempDir()
	groups := alerts(t)
	writeYAML(t, filepath.Join(dir, "rules.yaml"), map[string]any{"groups": groups})
	text, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alerts.test.yaml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	checkTested(t, groups, text)
	promtool(t, "check", "rules", filepath.Join(dir, "rules.yaml"))
	promtool(t, "test", "rules", filepath.Join(dir, "alerts.test.yaml"))
}

// alerts returns the groups of alerts that the chart renders.
func alerts(t *testing.T) []ruleGroup {
	t.Helper()
	out, err := release{chart: "dcgm-exporter", values: valuesOf(t, "testdata/dcgm-exporter/alerts.values.yaml")}.render()
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(out, "\n---\n") {
		var object struct {
			Kind string
			Spec struct{ Groups []ruleGroup }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "PrometheusRule" {
			return object.Spec.Groups
		}
	}
	t.Fatal("the chart renders no PrometheusRule")
	return nil
}

// checkTested finds alerts that no test sees fire, or that no test sees quiet.
func checkTested(t *testing.T, groups []ruleGroup, tests []byte) {
	t.Helper()
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(tests, &file); err != nil {
		t.Fatalf("%s: %v", alertTests, err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, at := range test.AlertRuleTest {
			if len(at.ExpAlerts) > 0 {
				fires[at.Alertname] = true
			} else {
				quiet[at.Alertname] = true
			}
		}
	}
	for _, group := range groups {
		for _, one := range group.Rules {
			if !fires[one.Alert] || !quiet[one.Alert] {
				t.Errorf("%s: %s: fires in a test: %t, is quiet in a test: %t; it needs both", alertTests, one.Alert, fires[one.Alert], quiet[one.Alert])
			}
		}
	}
}

// promtool runs Prometheus's tool for rules.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("this machine has no promtool: tools/packages.sh packages-test.txt installs it")
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func writeYAML(t *testing.T, path string, value any) {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
