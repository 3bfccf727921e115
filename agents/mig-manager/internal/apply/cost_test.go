package apply_test

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

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

// A decision observes the node once: what is planned from an observation asks nothing of GPUs
// that stay as they are, and only for the processes of the others.
func TestADecisionObservesOnce(t *testing.T) {
	r := newRig(t, "--gpus=4", "--model=h100-80")
	seen, err := r.a.Observe(t.Context())
	assert.NilError(t, err)
	plan := func(want map[int]string) (p apply.Plan) {
		t.Helper()
		req := apply.Request{Seen: seen, Desired: desired(t, seen.GPUs(), want)}
		if p, err = r.a.Plan(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if n := r.calls(func() { plan(map[int]string{0: "off", 1: "off"}) }); n != 0 {
		t.Errorf("%d calls for a plan of what is in force, of GPUs that were seen", n)
	}
	if n := r.calls(func() { plan(map[int]string{0: "7g.80gb"}) }); n != 2 {
		t.Errorf("%d calls for a plan, want those for the compute and the graphics processes of one GPU", n)
	}
	// One that changes a GPU of 4 reads no other GPU again.
	req := apply.Request{Seen: seen, Desired: desired(t, seen.GPUs(), map[int]string{0: "7g.80gb", 1: "off"})}
	r.node.Calls()
	if _, err := r.a.Apply(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if calls := r.node.Calls(); calls["nvmlDeviceGetUUID"] != 1 {
		t.Errorf("the UUIDs of %d GPUs are read to change one", calls["nvmlDeviceGetUUID"])
	}
	// What was seen before a change does not hold after it, nor after NVML was shut down.
	if p := plan(map[int]string{0: "7g.80gb"}); p.Needed() {
		t.Errorf("after a change, a plan starts from what was before: %+v", p.GPUs)
	}
	if seen, err = r.a.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.idle()
	r.run("mig destroy 0 all")
	if p := plan(map[int]string{0: "7g.80gb"}); !p.Needed() {
		t.Error("after NVML was shut down, a plan starts from what was before")
	}
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
		{"turn the mode on, create 56 devices", req, 8 + 2*56, 560},
		{"nothing", req, 0, 230},
		{"destroy 56 devices, turn the mode off", r.ask(off), 8 + 2*56, 660},
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
