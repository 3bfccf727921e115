package state_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// nvml.h: the mode "is not persistent across reboots". The driver's registry keeps it until the module is unloaded.
func TestComputeModeLastsUntilTheDriverIsUnloaded(t *testing.T) {
	tests := map[string]struct {
		restart func(*testing.T, *state.State)
		want    state.ComputeMode
	}{
		"a reset":                {reset, state.ExclusiveProcess},
		"a reload of the driver": {reload, ""},
		"a reboot":               {reboot, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec("l4", 1))
			assert.NilError(t, s.SetField(0, "compute-mode", "exclusive-process"))
			assert.Equal(t, s.Show().GPUs[0].ComputeMode, state.ExclusiveProcess)
			test.restart(t, s)
			assert.Equal(t, s.Show().GPUs[0].ComputeMode, test.want)
		})
	}
}

func TestComputeModeHasAName(t *testing.T) {
	s := create(t, state.NewSpec("l4", 1))
	for text, want := range map[string]state.ComputeMode{"default": "", "prohibited": state.Prohibited} {
		assert.NilError(t, s.SetField(0, "compute-mode", text))
		assert.Equal(t, s.Show().GPUs[0].ComputeMode, want)
	}
	for _, text := range []string{"", "1", "exclusive-thread"} {
		assert.ErrorContains(t, s.SetField(0, "compute-mode", text), "want default, exclusive-process or prohibited")
	}
}
