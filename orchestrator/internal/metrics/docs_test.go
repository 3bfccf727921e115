package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const page = "../../../docs/orchestrator-status.md"

// TestDocumentedAlerts checks the form of the rules in the documentation, and that their
// metrics exist. It does not know PromQL.
func TestDocumentedAlerts(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(content), "```yaml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("%s has no rules", page)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte(block), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) == 0 || len(rules.Groups[0].Rules) == 0 {
		t.Fatal("there are no rules")
	}
	known := exported(t)
	for _, rule := range rules.Groups[0].Rules {
		if rule.Alert == "" || !regexp.MustCompile(`^\d+[mh]$`).MatchString(rule.For) || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
			t.Errorf("a rule is not complete: %+v", rule)
		}
		names := metricNames(rule.Expr)
		if len(names) == 0 {
			t.Errorf("%s: no metric in %q", rule.Alert, rule.Expr)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", rule.Alert, name)
			}
		}
		for _, pair := range []string{"()", "{}", `""`} {
			if opened, ends := strings.Count(rule.Expr, pair[:1]), strings.Count(rule.Expr, pair[1:]); opened != ends || pair == `""` && opened%2 != 0 {
				t.Errorf("%s: %q has unequal %s", rule.Alert, rule.Expr, pair)
			}
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
		if name != "gpu_operator_" && !slices.Contains(exported(t), name) {
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
