package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzFiles reads files of an archive from anybody, and removes secrets from them.
func FuzzFiles(f *testing.F) {
	for _, name := range []string{theirNodes, theirLabels, theirPods, theirPolicy} {
		text, err := os.ReadFile(filepath.Join("testdata", "nvidia", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("items:\n- a\n\n-b\n- {kind: Pod, spec: [}\n")
	f.Add("password=\"a\\\"b\" token: -----BEGIN PRIVATE KEY----- https://a:b@c Authorization: Basic x==")
	f.Fuzz(func(t *testing.T, text string) {
		for _, n := range describedNodes(text) {
			if n.Labels == nil || n.Status.Capacity == nil {
				t.Errorf("a node without fields: %+v", n)
			}
		}
		labelledNodes(text)
		if pods, err := decode[corev1.Pod]([]byte(text), "Pod"); err != nil && strings.Contains(err.Error(), "panic") {
			t.Errorf("%d pods: %v", len(pods), err)
		}
		removals{}.text(text)
	})
}
