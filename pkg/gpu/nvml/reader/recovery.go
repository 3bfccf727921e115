package reader

import (
	"encoding/binary"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// condition is the lasting state of a GPU, which decides whether the GPU is healthy.
type condition struct {
	recovery gpu.Recovery
	memory   []gpu.MemoryFault
}

func (c condition) equal(o condition) bool {
	return c.recovery == o.recovery && slices.Equal(c.memory, o.memory)
}

// conditionOf returns the condition of a GPU at its last reading.
func conditionOf(g *gpu.GPU) condition { return condition{g.Recovery, g.MemoryFaults} }

// memoryFields returns the field of NVML for each memory fault. A value above 0 is a fault.
func memoryFields() map[gpu.MemoryFault]uint32 {
	return map[gpu.MemoryFault]uint32{
		gpu.RowRemapFailed:        gonvml.FI_DEV_REMAPPED_FAILURE,
		gpu.UncorrectedECC:        gonvml.FI_DEV_ECC_DBE_VOL_TOTAL,
		gpu.RowRemapPending:       gonvml.FI_DEV_REMAPPED_PENDING,
		gpu.PageRetirementPending: gonvml.FI_DEV_RETIRED_PENDING,
	}
}

// readCondition reads the condition of a GPU in one call. The recovery action is unknown on drivers
// before R565. A GPU does not report kinds of memory faults that do not exist in its generation. If NVML
// has no field values, readCondition reads the remapped rows and the memory errors one by one.
func readCondition(h nvml.Device) (condition, error) {
	faults := gpu.MemoryFaults()
	values := []gonvml.FieldValue{{FieldId: gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	for _, f := range faults {
		values = append(values, gonvml.FieldValue{FieldId: memoryFields()[f]})
	}
	if err := h.FieldValues(values); err != nil {
		return readMemory(h, err)
	}
	var c condition
	known := false
	for i, v := range values {
		switch ret := gonvml.Return(v.NvmlReturn); {
		case ret == gonvml.ERROR_GPU_IS_LOST, ret == gonvml.ERROR_RESET_REQUIRED:
			return readMemory(h, nil)
		case ret != gonvml.SUCCESS:
			continue
		case i == 0:
			c.recovery = recoveryOf(fieldNumber(v))
		case fieldNumber(v) > 0:
			c.memory = append(c.memory, faults[i-1])
		}
		known = true
	}
	if !known {
		return readMemory(h, nil)
	}
	return c, nil
}

// readMemory reads the memory faults without field values. failed is the error of the field values. It
// fails for a GPU that does not work, even if the GPU reports no memory faults.
func readMemory(h nvml.Device, failed error) (condition, error) {
	var c condition
	pending, broken, err := h.RemappedRows()
	errors, eccErr := h.UncorrectedErrors()
	for _, e := range []error{failed, err, eccErr} {
		if e != nil && !unsupported(e) {
			return condition{}, e
		}
	}
	if unsupported(err) && unsupported(eccErr) {
		return c, askMemory(h)
	}
	for _, f := range gpu.MemoryFaults() {
		if f == gpu.RowRemapFailed && broken || f == gpu.UncorrectedECC && errors > 0 || f == gpu.RowRemapPending && pending {
			c.memory = append(c.memory, f)
		}
	}
	return c, nil
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
