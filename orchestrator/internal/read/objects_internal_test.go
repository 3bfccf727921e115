package read

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
)

// TestTooManyEvents records once that Events are left out.
func TestTooManyEvents(t *testing.T) {
	var f facts.Facts
	page := make([]corev1.Event, maxEvents/2)
	for i, want := range []int{0, 0, 1, 1} {
		addEvents(&f, page)
		if len(f.Unseen) != want || len(f.Events) != min(i+1, 2)*len(page) {
			t.Errorf("after page %d: %d Events, unseen %v", i, len(f.Events), f.Unseen)
		}
	}
}
