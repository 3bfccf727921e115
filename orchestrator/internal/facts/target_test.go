package facts_test

import (
	"testing"

	"outrigger.dev/orchestrator/internal/facts"
)

func TestParseTarget(t *testing.T) {
	for word, want := range map[string]facts.Target{
		"": {}, "n1": {Node: "n1"}, "node/n1": {Node: "n1"}, "team/train": {Namespace: "team", Pod: "train"}, "pod/train": {Namespace: "here", Pod: "train"},
	} {
		if got, err := facts.ParseTarget(word, "here"); err != nil || got != want {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	}
	for _, word := range []string{"/", "a/", "/b", "a/b/c"} {
		if got, err := facts.ParseTarget(word, "here"); err == nil {
			t.Errorf("%q: %+v", word, got)
		}
	}
}
