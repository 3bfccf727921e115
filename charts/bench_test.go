package charts

import "testing"

// BenchmarkStages is what the orchestrator does when the values change.
func BenchmarkStages(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Stages(Release{Name: "gpu-operator", Namespace: "gpu-operator", Kubernetes: "1.36.0", Values: map[string]any{}}); err != nil {
			b.Fatal(err)
		}
	}
}
