package loader

import (
	"testing"
	"time"
)

func TestWhetherAnAttemptIsRecentDependsOnItsAge(t *testing.T) {
	for name, tc := range map[string]struct {
		at   time.Time
		want bool
	}{
		"the compiler failed":                {time.Time{}, true},
		"it has just failed":                 {time.Now(), true},
		"the interval is over":               {time.Now().Add(-attemptInterval), false},
		"the clock was ahead":                {time.Now().Add(time.Hour), false},
		"the clock was ahead by many years":  {time.Now().AddDate(1000, 0, 0), false},
		"the clock was behind by many years": {time.Unix(0, 0), false},
	} {
		if got := (Attempt{At: tc.at}).recent(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
