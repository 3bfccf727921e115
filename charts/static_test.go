package charts_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const statics = "../deployments/static"

// TestStaticManifests compares the manifests for "kubectl apply" with what the
// charts render with their static.yaml in testdata. The comment at the head of
// these values is the comment at the head of the manifest.
func TestStaticManifests(t *testing.T) {
	found := map[string]bool{}
	for _, chart := range names(t) {
		path := filepath.Join("testdata", chart, "static.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			continue // The chart needs Helm.
		}
		found[chart+".yaml"] = true
		t.Run(chart, func(t *testing.T) {
			out, err := release{chart: chart, values: valuesOf(t, path), namespace: "kube-system"}.render()
			if err != nil {
				t.Fatal(err)
			}
			objects := withoutHelm(out)
			if strings.Contains(strings.ToLower(objects), "helm") {
				t.Errorf("the objects name Helm:\n%s", objects)
			}
			compareGolden(t, filepath.Join(statics, chart+".yaml"), header(text)+objects)
		})
	}
	manifests, err := os.ReadDir(statics)
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range manifests {
		if !found[manifest.Name()] {
			t.Errorf("%s/%s: no chart has testdata for it", statics, manifest.Name())
		}
	}
}

// header returns the comment that a file begins with.
func header(text []byte) string {
	var out strings.Builder
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		out.Write(line)
	}
	return out.String()
}

// withoutHelm removes from rendered objects what names Helm as their manager.
func withoutHelm(rendered string) string {
	var out strings.Builder
	for line := range strings.Lines(rendered) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "helm.sh/") || strings.HasPrefix(text, "# Source: ") ||
			text == "app.kubernetes.io/managed-by: Helm" {
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}
