package daemon

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/pool"
)

func TestNext(t *testing.T) {
	eight := pool.Simulation{Model: "h100-80", GPUs: 8}
	two := pool.Simulation{Model: "h100-80", GPUs: 2}
	made := &record{Version: "1", Simulation: eight}
	bad := errors.New("bad label")
	const real = "NVIDIA's driver is loaded"
	for name, c := range map[string]struct {
		seen    observed
		want    *pool.Simulation
		problem error
		act     action
	}{
		"nothing wanted, nothing there":             {observed{version: "1"}, nil, nil, idle},
		"gpus wanted, nothing there":                {observed{version: "1"}, &eight, nil, replace},
		"the wanted gpus are there":                 {observed{version: "1", folder: true, made: made}, &eight, nil, keep},
		"other gpus are there":                      {observed{version: "1", folder: true, made: made}, &two, nil, replace},
		"another version made them":                 {observed{version: "2", folder: true, made: made}, &eight, nil, replace},
		"the making was interrupted":                {observed{version: "1", folder: true}, &eight, nil, replace},
		"a record without a folder":                 {observed{version: "1", made: made}, &eight, nil, replace},
		"the label is removed":                      {observed{version: "1", folder: true, made: made}, nil, nil, remove},
		"the removal was interrupted":               {observed{version: "1", folder: true}, nil, nil, remove},
		"a wrong label":                             {observed{version: "1"}, nil, bad, idle},
		"a wrong label changes no gpus":             {observed{version: "1", folder: true, made: made}, nil, bad, keep},
		"a wrong label after an interrupted change": {observed{version: "1", folder: true}, nil, bad, idle},
		"a real gpu":                                {observed{version: "1", real: real}, &eight, nil, idle},
		"a real driver was loaded later":            {observed{version: "1", real: real, folder: true, made: made}, &eight, nil, remove},
	} {
		t.Run(name, func(t *testing.T) {
			if act := next(c.seen, c.want, c.problem); act != c.act {
				t.Errorf("next() = %d, want %d", act, c.act)
			}
		})
	}
}

// Each check of a node asks what its labels ask for, and an answer reads a model.
func TestChooseReadsAModelOnce(t *testing.T) {
	d := New(Config{})
	choose := func(labels map[string]string) *pool.Simulation {
		t.Helper()
		s, err := d.choose(labels)
		assert.NilError(t, err)
		return s
	}
	first := choose(map[string]string{pool.Label: "l4x1"})
	if again := choose(map[string]string{pool.Label: "l4x1"}); again != first {
		t.Error("the same labels were read again")
	}
	assert.Equal(t, choose(map[string]string{pool.Label: "l4x2"}).GPUs, 2)
	if none := choose(map[string]string{}); none != nil {
		t.Errorf("no label asks for %+v", none)
	}
}
