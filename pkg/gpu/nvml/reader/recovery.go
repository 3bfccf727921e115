package reader

import (
	"encoding/binary"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// recovery reads the action that a GPU needs to become healthy. Drivers before R565 do not report
// it. For them, recovery reads whether rows of memory wait for a reset to be remapped, which newer
// drivers report as "drain and reset". The GPU works with its other rows until then. The result is
// unknown if the driver reports neither.
func recovery(h nvml.Device) (gpu.Recovery, error) {
	values := []gonvml.FieldValue{{FieldId: gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	failed := h.FieldValues(values)
	if failed == nil && gonvml.Return(values[0].NvmlReturn) == gonvml.SUCCESS {
		return recoveryOf(fieldNumber(values[0])), nil
	}
	pending, err := h.RemapPending()
	switch {
	case failed != nil && !unsupported(failed):
		return gpu.RecoveryUnknown, failed
	case err != nil && !unsupported(err):
		return gpu.RecoveryUnknown, err
	case err == nil && pending:
		return gpu.RecoveryDrainAndReset, nil
	default:
		return gpu.RecoveryUnknown, nil
	}
}

// fieldNumber returns the value of a field that is not negative.
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

// recoveryOf returns the action with this number. An action that is newer than this program counts
// as a reset, the least of the actions.
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
