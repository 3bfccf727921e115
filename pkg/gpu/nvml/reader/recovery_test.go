package reader_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

func TestCondition(t *testing.T) {
	const noFields = "nvmlDeviceGetFieldValues.return=3"
	for name, c := range map[string]struct {
		set      []string
		recovery gpu.Recovery
		memory   []gpu.MemoryFault
	}{
		"nothing":                        {recovery: gpu.RecoveryNone},
		"a reset":                        {set: []string{"0.recovery=reset"}, recovery: gpu.RecoveryReset},
		"a reboot":                       {set: []string{"0.recovery=reboot"}, recovery: gpu.RecoveryReboot},
		"an end of peer-to-peer traffic": {set: []string{"0.recovery=drain-p2p"}, recovery: gpu.RecoveryDrainP2P},
		"an end of work":                 {set: []string{"0.recovery=drain-and-reset"}, recovery: gpu.RecoveryDrainAndReset},
		"its IMEX domain":                {set: []string{"0.recovery=recover-imex-domain"}, recovery: gpu.RecoveryIMEXDomain},
		"rows wait for a remapping":      {[]string{"0.remap-pending=1"}, gpu.RecoveryNone, []gpu.MemoryFault{gpu.RowRemapPending}},
		"rows could not be remapped":     {[]string{"0.remap-failed=1"}, gpu.RecoveryNone, []gpu.MemoryFault{gpu.RowRemapFailed}},
		"an uncorrectable error in DRAM": {[]string{"0.ecc-volatile-dram-uncorrected=2"}, gpu.RecoveryNone, []gpu.MemoryFault{gpu.UncorrectedECC}},
		"an uncorrectable error in SRAM": {[]string{"0.ecc-volatile-sram-uncorrected=1"}, gpu.RecoveryNone, []gpu.MemoryFault{gpu.UncorrectedECC}},
		"an old uncorrectable error":     {[]string{"0.ecc-aggregate-dram-uncorrected=9"}, gpu.RecoveryNone, nil},
		"corrected errors":               {[]string{"0.ecc-volatile-dram-corrected=9", "0.remap-corrected=2", "0.remap-uncorrected=1"}, gpu.RecoveryNone, nil},
		"all at once": {
			[]string{"0.recovery=reset", "0.remap-pending=1", "0.remap-failed=1", "0.ecc-volatile-dram-uncorrected=1"},
			gpu.RecoveryReset,
			[]gpu.MemoryFault{gpu.RowRemapFailed, gpu.UncorrectedECC, gpu.RowRemapPending},
		},
		"a driver that does not know":                  {set: []string{noFields}},
		"such a driver, rows wait for a remapping":     {[]string{noFields, "0.remap-pending=1"}, gpu.RecoveryUnknown, []gpu.MemoryFault{gpu.RowRemapPending}},
		"such a driver, rows could not be remapped":    {[]string{noFields, "0.remap-failed=1"}, gpu.RecoveryUnknown, []gpu.MemoryFault{gpu.RowRemapFailed}},
		"such a driver, an uncorrectable memory error": {[]string{noFields, "0.ecc-volatile-sram-uncorrected=1"}, gpu.RecoveryUnknown, []gpu.MemoryFault{gpu.UncorrectedECC}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=1", "--model=a100-40")
			for _, set := range c.set {
				s.run("set", set)
			}
			src := s.source(nil)
			defer closeSource(t, src)
			g := snapshot(t, src).GPUs[0]
			if g.Recovery != c.recovery || g.Fault != nil {
				t.Errorf("recovery = %q with the fault %v, want %q", g.Recovery, g.Fault, c.recovery)
			}
			if d := cmp.Diff(c.memory, g.MemoryFaults); d != "" {
				t.Errorf("memory faults (-want +got):\n%s", d)
			}
		})
	}
}

// No event reports faults of the memory, so a watch asks for them.
func TestAWatchFindsMemoryFaults(t *testing.T) {
	for name, mode := range map[string]string{"a whole GPU": "off", "a GPU whose MIG mode is polled": "on"} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=2", "--model=h100-80")
			s.run("set", "nvmlDeviceGetSupportedEventTypes.return=3")
			s.run("mig mode", "1", mode)
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := false
			assert.NilError(t, src.Watch(ctx, func(gpu.Event) {
				faults := snapshot(t, src).GPUs[1].MemoryFaults
				if !begun {
					begun = true
					s.run("set", "1.remap-failed=1")
				}
				if len(faults) > 0 {
					cancel()
				}
			}))
		})
	}
}
