package apply_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
)

func TestApply(t *testing.T) {
	r := newRig(t, "--gpus=3", "--model=h100-80")
	r.run("mig mode 1 on")
	r.run("mig create 1 3g.40gb@4 2g.20gb@0 1g.10gb@2")
	r.run("mig mode 2 on")
	r.run("mig create 2 7g.80gb")
	req := r.ask(map[int]string{0: "1g.10gb 1g.10gb 1c.3g.40gb", 1: "3g.40gb 1g.10gb 1g.10gb 1c.2g.20gb 1c.2g.20gb"})
	p, err := r.a.Plan(t.Context(), req)
	if err != nil || !p.Needed() {
		t.Fatalf("Plan() = %+v, %v", p, err)
	}
	var res apply.Result
	n := r.calls(func() { res, err = r.a.Apply(t.Context(), req) })
	assert.NilError(t, err)
	t.Logf("%d calls of NVML for 2 GPUs", n)
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Applied, apply.Applied})
	t.Log(r.state())
	if p, err = r.a.Plan(t.Context(), req); err != nil || p.Needed() {
		t.Errorf("it is not in force: %+v, %v", p, err)
	}
	if r.journal() {
		t.Error("the journal is left")
	}
	if got := r.state()[2]; got != "true true 7g.80gb@0:8/7@0" {
		t.Errorf("GPU 2 was touched: %s", got)
	}
}
