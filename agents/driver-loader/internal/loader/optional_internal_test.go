package loader

import (
	"testing"
	"time"
)

func TestWhetherAnAttemptIsRecentDependsOnItsAge(t *testing.T) {
	for name, tc := range map[string]struct {
		at            time.Time
		repeats, want bool
	}{
		"the compiler would fail again":      {time.Now().Add(-attemptInterval), true, true},
		"it has just failed":                 {time.Now(), false, true},
		"the interval is over":               {time.Now().Add(-attemptInterval), false, false},
		"the clock was ahead":                {time.Now().Add(time.Hour), false, false},
		"the clock was ahead by many years":  {time.Now().AddDate(1000, 0, 0), false, false},
		"the clock was behind by many years": {time.Unix(0, 0), false, false},
	} {
		if got := (Attempt{At: tc.at, repeats: tc.repeats}).recent(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
