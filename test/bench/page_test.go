package main

import (
	"os"
	"path/filepath"
	"testing"

	"outrigger.dev/test/bench/internal/page"
)

// TestThePageIsCurrent compares the page in docs with the page that the results and the figures there give.
func TestThePageIsCurrent(t *testing.T) {
	figures, err := page.Figures()
	if err != nil {
		t.Fatal(err)
	}
	const docs = "../../docs"
	var stored all
	if err := readJSON(filepath.Join(docs, "benchmarks.json"), &stored); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page.Page(figures, stored.Results) {
		t.Error("docs/benchmarks.md does not follow from docs/benchmarks.json; run: make bench, or only: bin/bench page")
	}
}
