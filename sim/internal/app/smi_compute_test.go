package app_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestNvidiaSMISetsComputeModes(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "2", "--model", "l4")
	gpus := s.show().GPUs
	smi := func(args ...string) string {
		t.Helper()
		return s.must("exec", append([]string{"--", "nvidia-smi"}, args...)...)
	}
	bus := strings.ToUpper("0000" + gpus[1].BusID)
	assert.Equal(t, smi("-i", gpus[1].UUID, "-c", "EXCLUSIVE_PROCESS"), fmt.Sprintf("Set compute mode to EXCLUSIVE_PROCESS for GPU %s.\nAll done.\n", bus))
	assert.Equal(t, smi("-i", "1", "-c", "3"), fmt.Sprintf("Compute mode is already set to EXCLUSIVE_PROCESS for GPU %s.\nAll done.\n", bus))
	assert.Equal(t, smi("--query-gpu=compute_mode", "--format=csv,noheader"), "Default\nExclusive_Process\n")
	assert.Assert(t, strings.Contains(smi(), " E. Process |"))
	smi("-c", "PROHIBITED")
	for _, g := range s.show().GPUs {
		assert.Equal(t, g.ComputeMode, state.Prohibited)
	}
	smi("--compute-mode=DEFAULT")
	for args, want := range map[string]string{
		"-c SHARED":    `compute mode "SHARED": want 0 or DEFAULT`,
		"-i 7 -c 0":    "No devices were found: 7",
		"-c 0 -q":      "-c with -q: not simulated",
		"-i 0 -c":      "not simulated",
		"-c=0 -i=none": "No devices were found: none",
	} {
		_, stderr, code := s.run("exec", append([]string{"--", "nvidia-smi"}, strings.Fields(args)...)...)
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, error %q, want %q", args, code, stderr, want)
		}
	}
}
