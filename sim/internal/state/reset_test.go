package state_test

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestModePendingComesWithARestartOfTheGPU(t *testing.T) {
	tests := map[string]struct {
		restart func(*testing.T, *state.State)
		on      bool
	}{
		"a reset":                {reset, true},
		"a reboot":               {reboot, true},
		"a reload of the driver": {reload, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec("a30", 1))
			if _, err := s.SetMIGMode(0, true); err != nil {
				t.Fatal(err)
			}
			test.restart(t, s)
			if got := readMIG(t, s); got.Enabled != test.on || !got.Pending {
				t.Errorf("got %+v, want the mode on: %t, and pending else", got, test.on)
			}
		})
	}
}

func TestWhatEndsInstances(t *testing.T) {
	tests := map[string]struct {
		model string
		do    func(*testing.T, *state.State)
		on    bool // the mode afterwards
	}{
		"the mode goes off":                {"h100-80", func(t *testing.T, s *state.State) { setMode(t, s, false) }, false},
		"the mode goes off with a reset":   {"a100-80", func(t *testing.T, s *state.State) { setMode(t, s, false) }, false},
		"a reset":                          {"a100-80", reset, true},
		"a reset of Hopper":                {"h100-80", reset, true},
		"a reboot":                         {"a100-80", reboot, true},
		"a reboot of Hopper":               {"h100-80", reboot, false},
		"a reload of the driver":           {"a100-80", reload, true},
		"a reload of the driver on Hopper": {"h100-80", reload, false},
		"another GPU in the slot":          {"a100-80", replace, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, board := divided(t, test.model)
			layout(t, s, board)
			test.do(t, s)
			if got := readMIG(t, s); got.Enabled != test.on || len(got.GPUInstances) > 0 {
				t.Errorf("got %+v, want no instances and the mode %t", got, test.on)
			}
		})
	}
}

func reload(t *testing.T, s *state.State) {
	assert.NilError(t, errors.Join(s.SetDriver(false), s.SetDriver(true)))
}

func reboot(t *testing.T, s *state.State) {
	assert.NilError(t, s.Reboot())
}

func replace(t *testing.T, s *state.State) {
	assert.NilError(t, s.Unplug(0))
	if _, err := s.Plug(state.GPUSpec{Model: "a100-80"}); err != nil {
		t.Fatal(err)
	}
}

func TestResetDoesWhatTheGPUAsksFor(t *testing.T) {
	tests := map[string]struct {
		ask, left state.Recovery
	}{
		"a reset":           {"reset", ""},
		"a drain and reset": {"drain-and-reset", ""},
		"a reboot":          {"reboot", "reboot"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec("a100-40", 1))
			assert.NilError(t, errors.Join(s.SetRecovery(0, test.ask), s.SetField(0, "remap-pending", "1")))
			assert.NilError(t, s.BeginReset(0))
			if got := s.Show().GPUs[0].Lost; got != state.LostHandle {
				t.Errorf("during the reset: got lost %q, want %q", got, state.LostHandle)
			}
			assert.ErrorIs(t, s.BeginReset(0), state.ErrLost)
			assert.NilError(t, s.EndReset(0))
			if g := s.Show().GPUs[0]; g.Recovery != test.left || g.RemapPending || g.Lost != "" || g.Resets != 1 {
				t.Errorf("after the reset: got %+v, want recovery %q", g, test.left)
			}
		})
	}
}
