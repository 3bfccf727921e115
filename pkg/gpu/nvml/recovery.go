package nvml

import (
	"encoding/binary"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// recovery asks what a GPU needs to be sound again. Drivers before R565 do not
// know; they are asked for rows of memory that are only remapped at the next
// reset, for which newer ones answer "drain and reset": the GPU goes on with
// what it has until then. No answer at all is no fault of the GPU.
func (s *session) recovery(h gonvml.Device, g *gpu.GPU) gonvml.Return {
	if s.lib.has[symFields] {
		values := []gonvml.FieldValue{{FieldId: gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
		ret := h.GetFieldValues(values)
		switch {
		case concernsGPU(ret):
			return ret
		case ret == gonvml.SUCCESS && gonvml.Return(values[0].NvmlReturn) == gonvml.SUCCESS:
			g.Recovery = recoveryOf(fieldNumber(values[0]))
			return gonvml.SUCCESS
		}
	}
	if s.lib.has[symRemapped] {
		_, _, pending, _, ret := h.GetRemappedRows()
		if concernsGPU(ret) {
			return ret
		}
		if ret == gonvml.SUCCESS && pending {
			g.Recovery = gpu.RecoveryDrainAndReset
		}
	}
	return gonvml.SUCCESS
}

// fieldNumber returns the value of a field that holds no negative number.
func fieldNumber(v gonvml.FieldValue) uint64 {
	switch gonvml.ValueType(v.ValueType) {
	case gonvml.VALUE_TYPE_UNSIGNED_LONG, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, gonvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(v.Value[:])
	case gonvml.VALUE_TYPE_UNSIGNED_SHORT:
		return uint64(binary.NativeEndian.Uint16(v.Value[:]))
	default:
		return uint64(binary.NativeEndian.Uint32(v.Value[:]))
	}
}

// recoveryOf returns the action by its number. One that is newer than this is
// more than none, and a reset the least.
func recoveryOf(action uint64) gpu.Recovery {
	switch gonvml.DeviceGpuRecoveryAction(action) {
	case gonvml.GPU_RECOVERY_ACTION_NONE:
		return gpu.RecoveryNone
	case gonvml.GPU_RECOVERY_ACTION_NODE_REBOOT:
		return gpu.RecoveryReboot
	case gonvml.GPU_RECOVERY_ACTION_DRAIN_P2P:
		return gpu.RecoveryDrainP2P
	case gonvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
		return gpu.RecoveryDrainAndReset
	case gonvml.GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN:
		return gpu.RecoveryIMEXDomain
	default:
		return gpu.RecoveryReset
	}
}
