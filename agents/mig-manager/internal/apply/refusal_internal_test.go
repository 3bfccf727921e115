package apply

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu/mig"
)

func TestRefusals(t *testing.T) {
	var r refusals
	if err := r.err(); err != nil {
		t.Errorf("no refusals are %v", err)
	}
	infeasible := func() error { return &plan.Infeasible{Causes: []plan.Cause{{Limit: plan.Placements}}} }
	r.add(mig.GPU{Index: 0}, infeasible())
	r.add(mig.GPU{Index: 1, UUID: "GPU-1"}, errors.New("it is lost"))
	r.add(mig.GPU{Index: 2}, infeasible())
	r.add(mig.GPU{Index: 3}, nil)
	const want = "plan MIG layout of GPUs 0, 2: fit no devices on one GPU: wherever they start, two of them overlap\n" +
		"plan MIG layout of GPU 1 (GPU-1): it is lost"
	err := r.err()
	assert.Error(t, err, want)
	if of := (*plan.Infeasible)(nil); !errors.As(err, &of) {
		t.Error("the error does not wrap the reason")
	}
}
