package apply_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func TestExactLayouts(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	id := r.gpus()[0].UUID
	at := func(profile string, start, size int, compute ...mig.Compute) mig.Instance {
		p, err := gpu.ParseProfile(profile)
		assert.NilError(t, err)
		return mig.Instance{Profile: p, Placement: gpu.Placement{Start: start, Size: size}, Compute: compute}
	}
	part := func(slices, start int) mig.Compute {
		return mig.Compute{Slices: slices, Placement: gpu.Placement{Start: start, Size: slices}}
	}
	req := r.ask(map[int]string{0: ""})
	before := r.state()
	for want, layout := range map[string]mig.Layout{
		"3g.40gb cannot be at 2:4":                {at("3g.40gb", 2, 4)},
		"3g.20gb cannot be at 0:4":                {at("3g.20gb", 0, 4)},
		"overlap":                                 {at("4g.40gb", 0, 4), at("1g.10gb", 3, 1)},
		"can have at most 1 of 1g.10gb+me, not 2": {at("1g.10gb+me", 0, 1), at("1g.10gb+me", 1, 1)},
	} {
		req.Layouts = map[gpu.UUID]mig.Layout{id: layout}
		if _, err := r.a.Apply(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Apply() = %v, want %q", err, want)
		}
	}
	r.untouched(before)
	req.Layouts = map[gpu.UUID]mig.Layout{id: {at("1g.10gb", 6, 1, part(1, 0)), at("3g.40gb", 0, 4, part(1, 2), part(1, 0))}}
	if _, err := r.a.Apply(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	r.untouched([]string{"true true 3g.40gb@0:4/1@0/1@2 1g.10gb@6:1/1@0"})
}
