package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/pkg/agent"
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
