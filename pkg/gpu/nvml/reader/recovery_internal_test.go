package reader

import (
	"encoding/binary"
	"slices"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

// fieldsGPU answers for each field with a code and a value. Fields that it does not have are not supported.
type fieldsGPU struct {
	gonvml.Device
	fields map[uint32]answer
	memory gonvml.Return
}

type answer struct {
	ret   gonvml.Return
	value uint32
}

func (g *fieldsGPU) GetUUID() (string, gonvml.Return) { return "GPU-1", gonvml.SUCCESS }

func (g *fieldsGPU) GetFieldValues(values []gonvml.FieldValue) gonvml.Return {
	for i := range values {
		a, ok := g.fields[values[i].FieldId]
		if !ok {
			a.ret = gonvml.ERROR_NOT_SUPPORTED
		}
		values[i].NvmlReturn, values[i].ValueType = uint32(a.ret), uint32(gonvml.VALUE_TYPE_UNSIGNED_INT)
		binary.NativeEndian.PutUint32(values[i].Value[:], a.value)
	}
	return gonvml.SUCCESS
}

func (g *fieldsGPU) GetRemappedRows() (corrected, uncorrected int, pending, failed bool, ret gonvml.Return) {
	return 0, 0, false, false, gonvml.ERROR_NOT_SUPPORTED
}

func (g *fieldsGPU) GetTotalEccErrors(gonvml.MemoryErrorType, gonvml.EccCounterType) (uint64, gonvml.Return) {
	return 0, gonvml.ERROR_NOT_SUPPORTED
}

func (g *fieldsGPU) GetMemoryInfo() (gonvml.Memory, gonvml.Return) { return gonvml.Memory{}, g.memory }

// A driver reports some of the fields, and GPUs before Ampere have pages instead of rows.
func TestConditionByField(t *testing.T) {
	const lostGPU, ok = gonvml.ERROR_GPU_IS_LOST, gonvml.SUCCESS
	for name, c := range map[string]struct {
		fields map[uint32]answer
		memory gonvml.Return
		want   condition
		lost   bool
	}{
		"a driver before R565": {
			fields: map[uint32]answer{gonvml.FI_DEV_REMAPPED_FAILURE: {ok, 1}, gonvml.FI_DEV_REMAPPED_PENDING: {ok, 0}, gonvml.FI_DEV_ECC_DBE_VOL_TOTAL: {ok, 2}},
			want:   condition{memory: []gpu.MemoryFault{gpu.RowRemapFailed, gpu.UncorrectedECC}},
		},
		"a GPU before Ampere": {
			fields: map[uint32]answer{gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION: {ok, 0}, gonvml.FI_DEV_RETIRED_PENDING: {ok, 1}},
			want:   condition{recovery: gpu.RecoveryNone, memory: []gpu.MemoryFault{gpu.PageRetirementPending}},
		},
		"a GPU that reports nothing":               {},
		"a GPU that reports nothing, and is lost":  {memory: lostGPU, lost: true},
		"a GPU that is lost for one of the fields": {fields: map[uint32]answer{gonvml.FI_DEV_ECC_DBE_VOL_TOTAL: {lostGPU, 0}, gonvml.FI_DEV_REMAPPED_PENDING: {ok, 0}}, memory: lostGPU, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t, &failing{fakeNVML{gpus: []gonvml.Device{&fieldsGPU{fields: c.fields, memory: c.memory}}}})
			h, err := v.handle(0)
			assert.NilError(t, err)
			got, err := readCondition(h)
			if lost(err) != c.lost || (err != nil) != c.lost {
				t.Fatalf("readCondition() = %v, want lost: %v", err, c.lost)
			}
			if got.recovery != c.want.recovery || !slices.Equal(got.memory, c.want.memory) {
				t.Errorf("readCondition() = %+v, want %+v", got, c.want)
			}
		})
	}
}
