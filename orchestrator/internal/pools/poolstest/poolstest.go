// Package poolstest evaluates node affinities for tests.
package poolstest

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Allows reports whether an affinity allows a node, as the scheduler has it for In and NotIn.
func Allows(t *testing.T, affinity map[string]any, node map[string]string) bool {
	t.Helper()
	terms, limited, err := unstructured.NestedSlice(affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if err != nil {
		t.Fatal(err)
	}
	return !limited || slices.ContainsFunc(terms, func(term any) bool {
		expressions, _, err := unstructured.NestedSlice(term.(map[string]any), "matchExpressions")
		if err != nil {
			t.Fatal(err)
		}
		return len(expressions) > 0 && !slices.ContainsFunc(expressions, func(e any) bool { return !holds(t, e.(map[string]any), node) })
	})
}

func holds(t *testing.T, expression map[string]any, node map[string]string) bool {
	t.Helper()
	value, ok := node[expression["key"].(string)]
	in := ok && slices.Contains(expression["values"].([]any), any(value))
	switch expression["operator"] {
	case "In":
		return in
	case "NotIn":
		return !in
	}
	t.Fatalf("operator %v", expression["operator"])
	return false
}
