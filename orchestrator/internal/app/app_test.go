package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

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

func TestValuesOfSeveralFiles(t *testing.T) {
	first := values(t, "devicePlugin: {logLevel: debug, logFormat: json}\ntoolkit: {enabled: false}")
	second := values(t, "devicePlugin: {logLevel: warn}")
	var out strings.Builder
	cmd := agenttest.Command(t, nil, "render", "-f", first, "-f", second)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"value: warn", "value: json"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no object has %q", want)
		}
	}
	for _, not := range []string{"value: debug", "Stage: container-toolkit"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("an object has %q", not)
		}
	}
	agenttest.Fails(t, agenttest.Command(t, nil, "render", "-f", values(t, "a: 1\na: 2")), 1, "read values", "already set")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	agenttest.Fails(t, agenttest.Command(t, nil, "render", "-f", pipe), 1, "read values", "it is a named pipe")
	agenttest.Fails(t, agenttest.Command(t, nil, "render", "-f", "/dev/zero"), 1, "read values", "it is a device")
}
