package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../../../docs/orchestrator-status.md"

// TestAlerts checks that the metrics of the alerts in the charts exist. Tests of the charts
// evaluate the rules.
func TestAlerts(t *testing.T) {
	content, err := os.ReadFile("../../../charts/dcgm-exporter/templates/_alerts-orchestrator.tpl")
	if err != nil {
		t.Fatal(err)
	}
	names := metricNames(string(content))
	if len(names) == 0 {
		t.Fatal("there are no rules")
	}
	for _, name := range names {
		if !slices.Contains(exported(t), name) {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// TestDocumentedMetrics checks that the documentation has all metrics.
func TestDocumentedMetrics(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range exported(t) {
		if !strings.Contains(string(content), "| `"+name) && !strings.Contains(string(content), ", `"+name) {
			t.Errorf("%s does not have %s", page, name)
		}
	}
	for _, name := range metricNames(string(content)) {
		// All agents have metrics of their loops.
		if name != "gpu_operator_" && !strings.HasPrefix(name, "outrigger_orchestrator_reconcile_") && !slices.Contains(exported(t), name) {
			t.Errorf("%s has the metric %s, which does not exist", page, name)
		}
	}
}

func metricNames(text string) []string {
	return regexp.MustCompile(`(?:gpu_operator|outrigger_orchestrator)_[a-z_]*`).FindAllString(text, -1)
}

// exported returns the names of all metrics.
func exported(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile("testdata/ready.prom")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(string(content), -1) {
		names = append(names, found[1])
	}
	return names
}
