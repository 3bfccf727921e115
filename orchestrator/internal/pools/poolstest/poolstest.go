// Package poolstest evaluates node affinities for tests.
package poolstest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Allows reports whether an affinity allows a node with these labels, by the scheduler's own code.
func Allows(t *testing.T, affinity map[string]any, node map[string]string) bool {
	t.Helper()
	var typed corev1.Affinity
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(affinity, &typed); err != nil {
		t.Fatal(err)
	}
	allows, err := nodeaffinity.NewRequiredNodeAffinity(nil, &typed).Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node}})
	if err != nil {
		t.Fatal(err)
	}
	return allows
}
