package state_test

import (
	"path/filepath"
	"testing"

	"outrigger.dev/sim/internal/state"
)

func TestCreateShowsWhatWasAsked(t *testing.T) {
	s, err := state.Create(filepath.Join(t.TempDir(), "state"), state.NewSpec("a100-40", 8))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	snap := s.Show()
	if got := len(snap.GPUs); got != 8 {
		t.Fatalf("got %d GPUs, want 8", got)
	}
}
