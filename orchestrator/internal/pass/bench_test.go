package pass_test

import (
	"testing"

	"outrigger.dev/orchestrator/internal/model"
)

// BenchmarkNext is a pass at rest, with 5,000 nodes of which 500 are broken.
func BenchmarkNext(b *testing.B) {
	w := healthy(5000)
	w.breaks("device-plugin", 500, model.Pod{Phase: "Running", Reason: "CrashLoopBackOff", Message: "NVML: driver not loaded"})
	w.state.Policy.Status = w.next().Status
	b.ReportAllocs()
	for b.Loop() {
		w.next()
	}
}
