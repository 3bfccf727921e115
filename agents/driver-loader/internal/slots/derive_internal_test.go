package slots

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// lease returns a Lease that a node holds, with failures.
func lease(i int, holder string, failures map[string]string) Lease {
	var l Lease
	l.Metadata.Name, l.Spec.Holder = fmt.Sprint(Prefix, i), holder
	if failures != nil {
		text, _ := json.Marshal(failures)
		l.Metadata.Annotations = map[string]string{FailuresAnnotation: string(text)}
	}
	return l
}

func TestDerive(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, tc := range map[string]struct {
		leases []Lease
		// age is how long the Leases have not changed, and ago when this node renewed its own.
		age, ago time.Duration
		want     Want
		held     bool
		free     []string
		holders  []string
		failed   []string
	}{
		"no slot was ever taken":           {want: Want{Slots: 2}, free: []string{"driver-upgrade-0", "driver-upgrade-1"}},
		"another node has the only one":    {leases: []Lease{lease(0, "b", nil)}, want: Want{Slots: 1}, holders: []string{"b"}},
		"another node has one of two":      {leases: []Lease{lease(0, "b", nil)}, want: Want{Slots: 2}, holders: []string{"b"}, free: []string{"driver-upgrade-1"}},
		"another node died":                {leases: []Lease{lease(0, "b", nil)}, age: Duration, want: Want{Slots: 1}, free: []string{"driver-upgrade-0"}},
		"another node is late":             {leases: []Lease{lease(0, "b", nil)}, age: Duration - time.Second, want: Want{Slots: 1}, holders: []string{"b"}},
		"this node has it":                 {leases: []Lease{lease(0, "me", nil)}, ago: time.Minute, want: Want{Slots: 1}, held: true},
		"this node did not renew it":       {leases: []Lease{lease(0, "me", nil)}, ago: fence, want: Want{Slots: 1}},
		"there are fewer slots than taken": {leases: []Lease{lease(0, "", nil), lease(3, "b", nil)}, want: Want{Slots: 1}, holders: []string{"b"}},
		"a node failed":                    {leases: []Lease{lease(0, "", map[string]string{"b": "2"})}, want: Want{Slots: 1, MaxFailures: 1, Driver: "2"}, failed: []string{"b"}},
		"a node failed, of two that may":   {leases: []Lease{lease(0, "", map[string]string{"b": "2"})}, want: Want{Slots: 1, MaxFailures: 2, Driver: "2"}, free: []string{"driver-upgrade-0"}},
		"two nodes failed in two slots":    {leases: []Lease{lease(0, "", map[string]string{"b": "2"}), lease(1, "", map[string]string{"c": "2"})}, want: Want{Slots: 2, MaxFailures: 2, Driver: "2"}, failed: []string{"b", "c"}},
		"a node failed with another one":   {leases: []Lease{lease(0, "", map[string]string{"b": "1"})}, want: Want{Slots: 1, MaxFailures: 1, Driver: "2"}, free: []string{"driver-upgrade-0"}},
		"any number may fail":              {leases: []Lease{lease(0, "", map[string]string{"b": "2"})}, want: Want{Slots: 1, Driver: "2"}, free: []string{"driver-upgrade-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]sighting{}
			for _, l := range tc.leases {
				seen[l.Metadata.Name] = sighting{at: now.Add(-tc.age)}
			}
			got := derive(tc.leases, seen, self{name: "me", renewed: now.Add(-tc.ago), now: now}, tc.want)
			if got.Held != tc.held || !slices.Equal(got.free, tc.free) || !slices.Equal(got.Holders, tc.holders) || !slices.Equal(got.Failed, tc.failed) {
				t.Errorf("derive() = %+v", got)
			}
		})
	}
}

func TestSettledIsBounded(t *testing.T) {
	failures := map[string]string{"old": "1"}
	for i := range 2 * maxFailures {
		failures = settled(failures, fmt.Sprint("node", i), "2")
	}
	if len(failures) != maxFailures || failures["old"] != "" {
		t.Errorf("a Lease has %d failures, one of them with another driver: %q", len(failures), failures["old"])
	}
	if got := settled(failures, "node7", ""); len(got) != maxFailures-1 || got["node7"] != "" {
		t.Errorf("a success leaves %d failures", len(got))
	}
}

func TestOthersMayWriteAnythingInTheAnnotation(t *testing.T) {
	for _, text := range []string{"null", "[]", "{", `{"a": 1}`, `"x"`, strings.Repeat("x", maxAnnotation+1)} {
		l := lease(0, "", nil)
		l.Metadata.Annotations = map[string]string{FailuresAnnotation: text}
		if got := l.failures(); got == nil || len(got) != 0 {
			t.Errorf("failures of %.20q are %v", text, got)
		}
	}
}
