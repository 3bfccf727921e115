package apply_test

import (
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
)

// writes are the calls that change something.
func writes(calls map[string]int) (changes, total int) {
	for symbol, n := range calls {
		total += n
		if strings.Contains(symbol, "Create") || strings.Contains(symbol, "Destroy") || strings.Contains(symbol, "SetMig") {
			changes += n
		}
	}
	return changes, total
}

// A node of 8 GPUs: 56 MIG devices need a call for each instance, and one for each mode.
// Nothing is done a second time.
func TestCost(t *testing.T) {
	r := newRig(t, "--gpus=8", "--model=h100-80")
	want := map[int]string{}
	for i := range 8 {
		want[i] = strings.Repeat("1g.10gb ", 7)
	}
	req, off := r.ask(want), map[int]string{}
	for i := range 8 {
		off[i] = "off"
	}
	for _, c := range []struct {
		what    string
		req     apply.Request
		changes int
		most    int
	}{
		{"turn the mode on, create 56 devices", req, 8 + 2*56, 650},
		{"nothing", req, 0, 260},
		{"destroy 56 devices, turn the mode off", r.ask(off), 8 + 2*56, 1150},
	} {
		r.node.Calls()
		began := time.Now()
		if _, err := r.a.Apply(t.Context(), c.req); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		changes, total := writes(r.node.Calls())
		t.Logf("%s: %d calls of NVML, %d of them changes, in %s", c.what, total, changes, took.Round(10*time.Microsecond))
		if changes != c.changes || total > c.most {
			t.Errorf("%s: %d changes in %d calls, want %d in at most %d", c.what, changes, total, c.changes, c.most)
		}
		if c.changes == 0 && strings.Count(r.log.String(), "outcome=") != 8 {
			t.Errorf("the log of a request that is in force: %s", r.log)
		}
	}
}
