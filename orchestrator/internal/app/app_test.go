package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/orchestrator/internal/apitest"
	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/pkg/agent"
)

// run runs a command as a person does.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = agent.Exec(t.Context(), app.App(), append([]string{"orchestrator"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

// must is run for a command that has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := run(t, args...)
	if code != 0 {
		t.Fatalf("orchestrator %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func values(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// words returns the first words of lines, sorted and without duplicates.
func words(text string) string {
	var first []string
	for line := range strings.Lines(text) {
		first = append(first, strings.Fields(line)[0])
	}
	slices.Sort(first)
	return strings.Join(slices.Compact(first), " ")
}

func TestApp(t *testing.T) {
	if err := agent.CheckApp(app.App()); err != nil {
		t.Fatal(err)
	}
}

func TestApplyAndDelete(t *testing.T) {
	config := "--kubeconfig=" + apitest.Kubeconfig(t, apitest.Start(t))
	out := must(t, "apply", config, "--dry-run")
	if !strings.Contains(out, "+kind: DaemonSet") {
		t.Errorf("the diff has no DaemonSet:\n%.2000s", out)
	}
	if got := words(must(t, "apply", config)); got != "created" {
		t.Errorf("the first apply has %q", got)
	}
	if got := words(must(t, "apply", config)); got != "unchanged" {
		t.Errorf("the second apply has %q", got)
	}
	if out := must(t, "apply", config, "--dry-run"); out != "" {
		t.Errorf("the diff after apply is not empty:\n%.2000s", out)
	}
	if out := must(t, "status", config); !strings.Contains(out, "device-plugin") || !strings.Contains(out, "no node matches") {
		t.Errorf("status printed\n%s", out)
	}
	off := values(t, "devicePlugin: {enabled: false}")
	if got := words(must(t, "apply", config, "-f", off)); !strings.Contains(got, "deleting unchanged") {
		t.Errorf("apply without the device plugin has %q", got)
	}
	if out, errs, code := run(t, "apply", config, "--wait", "--timeout=5s"); code == 0 || !strings.Contains(errs, "NoGPUNodes") && !strings.Contains(errs, "NFDLabelsMissing") {
		t.Errorf("apply --wait without a node ended with %d:\n%s%s", code, out, errs)
	}
	if out := must(t, "delete", config, "--verify", "--timeout=20s"); !strings.Contains(out, "nothing is left") {
		t.Errorf("delete printed\n%s", out)
	}
}
