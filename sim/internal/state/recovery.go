package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"
)

// Recovery is the action that a GPU needs to become healthy: a value of
// nvmlDeviceGpuRecoveryAction_t. Empty means no action.
type Recovery string

const recoveryField = "recovery"

// recoveries returns the values by their number in NVML.
func recoveries() []Recovery {
	return []Recovery{"none", "reset", "reboot", "drain-p2p", "drain-and-reset", "recover-imex-domain"}
}

func recoveryName(code C.uint32_t) Recovery {
	if all := recoveries(); code != 0 && int(code) < len(all) {
		return all[code]
	}
	return ""
}

// eventRecovery is nvmlEventTypeGpuRecoveryAction.
const eventRecovery = 0x8000

// SetRecovery sets the action that a GPU asks for. If the action changes, it raises NVML's event.
func (s *State) SetRecovery(slot Slot, r Recovery) error {
	code := slices.Index(recoveries(), r)
	if code < 0 {
		var want []string
		for _, r := range recoveries() {
			want = append(want, string(r))
		}
		return fmt.Errorf("set recovery of the GPU in slot %d to %q: want one of %s", slot, r, strings.Join(want, ", "))
	}
	return s.updateGPU(slot, func(gpu *C.struct_sim_gpu) error {
		if gpu.recovery == C.uint32_t(code) {
			return nil
		}
		gpu.recovery = C.uint32_t(code)
		C.sim_write_gpu(s.sim, C.uint32_t(slot), gpu) // write the state before its event
		s.post(gpu, C.struct_sim_event{
			kind: C.SIM_EVENT_GPU, _type: eventRecovery, data: C.uint64_t(code),
			gpu_instance: C.SIM_NO_INSTANCE, compute_instance: C.SIM_NO_INSTANCE,
		})
		return nil
	})
}
