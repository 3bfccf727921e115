package pace_test

import (
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
)

func TestBudget(t *testing.T) {
	const burst, every = 25, time.Minute
	now := time.Unix(0, 0)
	b := pace.Budget{Burst: burst, Every: every}
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{
		{0, burst}, {every - 1, 0}, {1, 1}, {every * 3 / 2, 1}, {every / 2, 1}, {1000 * every, burst},
	} {
		now = now.Add(tc.after)
		got := 0
		for range 100 {
			if b.Spend(now) {
				got++
			}
		}
		if got != tc.want {
			t.Errorf("%v later: %d spent, want %d", tc.after, got, tc.want)
		}
	}
}
