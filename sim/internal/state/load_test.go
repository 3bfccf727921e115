package state_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestSeveralValuesAreSetAtOnce(t *testing.T) {
	s, board := divided(t, "h100-80")
	gi, _ := find(t, board, "3g.40gb")
	made := place(t, s, gi, state.Anywhere)
	assert.NilError(t, s.SetValues(0, map[string]uint64{"power": 300000, "temperature": 60}, map[int]map[string]uint64{made.ID: {"sm-active": 40}}))
	g := s.Show().GPUs[0]
	if g.PowerMilliwatts != 300000 || g.Temperature != 60 || g.MIG.GPUInstances[0].Values["sm-active"] != 40 {
		t.Errorf("%+v", g)
	}
	for name, err := range map[string]error{
		"temperature 999":             s.SetValues(0, map[string]uint64{"power": 1, "temperature": 999}, nil),
		"GPU instance 7: no such":     s.SetValues(0, map[string]uint64{"power": 1}, map[int]map[string]uint64{7: {}}),
		"slot 1: no such GPU plugged": s.SetValues(1, nil, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if g := s.Show().GPUs[0]; g.PowerMilliwatts != 300000 {
		t.Errorf("a change that fails changed the power to %d", g.PowerMilliwatts)
	}
}

func TestLimits(t *testing.T) {
	s, board := divided(t, "h100-80")
	gi, _ := find(t, board, "3g.40gb")
	made := place(t, s, gi, state.Anywhere)
	l, err := s.Limits(0)
	assert.NilError(t, err)
	part := l.Instances[made.ID]
	if l.Slices != 7 || part.Slices != 3 || part.Memory != uint64(gi.MemoryMiB)<<20 || l.Clocks["clock-sm"] == 0 || l.Memory == 0 || l.Memory >= s.Show().GPUs[0].MemoryBytes {
		t.Errorf("%+v", l)
	}
	whole, err := create(t, state.NewSpec("l4", 1)).Limits(0)
	assert.NilError(t, err)
	if whole.Slices != 0 || len(whole.Instances) != 0 || whole.Memory == 0 {
		t.Errorf("a product without MIG: %+v", whole)
	}
}
