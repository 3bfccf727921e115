package abi_test

import (
	"os"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// total returns what all memories of a GPU have counted.
func total(t *testing.T, d nvml.Device, kind nvml.MemoryErrorType, counter nvml.EccCounterType) uint64 {
	t.Helper()
	n, ret := d.GetTotalEccErrors(kind, counter)
	mustBe(t, "nvmlDeviceGetTotalEccErrors", ret, nvml.SUCCESS)
	return n
}

// nvml.h, nvmlEccCounterType_t: volatile counts "are reset each time the driver
// loads", aggregate ones "persist across reboots".
func TestECCErrorsAreCounted(t *testing.T) {
	const corrected, uncorrected = nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.MEMORY_ERROR_TYPE_UNCORRECTED
	m := newMachine(t, state.NewSpec("a100-40", 1))
	d := device(t, m.session(t), 0)
	for field, value := range map[string]string{
		"ecc-volatile-dram-corrected": "5", "ecc-volatile-sram-corrected": "2", "ecc-volatile-dram-uncorrected": "1",
		"ecc-aggregate-sram-uncorrected": "9",
	} {
		mustDo(t, m.SetField(0, field, value))
	}
	mustEqual(t, "corrected", uint64(7), total(t, d, corrected, nvml.VOLATILE_ECC))
	mustEqual(t, "uncorrected", uint64(1), total(t, d, uncorrected, nvml.VOLATILE_ECC))
	mustEqual(t, "corrected ever", uint64(7), total(t, d, corrected, nvml.AGGREGATE_ECC))
	mustEqual(t, "uncorrected ever", uint64(10), total(t, d, uncorrected, nvml.AGGREGATE_ECC))
	for id, want := range map[uint32]uint64{
		nvml.FI_DEV_ECC_SBE_VOL_TOTAL: 7, nvml.FI_DEV_ECC_DBE_VOL_TOTAL: 1, nvml.FI_DEV_ECC_SBE_AGG_TOTAL: 7,
		nvml.FI_DEV_ECC_DBE_AGG_TOTAL: 10, nvml.FI_DEV_ECC_SBE_VOL_DEV: 5, nvml.FI_DEV_ECC_DBE_AGG_DEV: 1,
	} {
		mustEqual(t, "field", want, number(t, d, id, 0))
	}
	location := func(at nvml.MemoryLocation) (uint64, nvml.Return) {
		return d.GetMemoryErrorCounter(corrected, nvml.VOLATILE_ECC, at)
	}
	for at, want := range map[nvml.MemoryLocation]uint64{nvml.MEMORY_LOCATION_DRAM: 5, nvml.MEMORY_LOCATION_SRAM: 2} {
		n, ret := location(at)
		mustBe(t, "nvmlDeviceGetMemoryErrorCounter", ret, nvml.SUCCESS)
		mustEqual(t, "errors of a memory", want, n)
	}
	_, ret := location(nvml.MEMORY_LOCATION_TEXTURE_MEMORY)
	mustBe(t, "a memory that is not reported", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = location(nvml.MEMORY_LOCATION_COUNT)
	mustBe(t, "a memory that is none", ret, nvml.ERROR_INVALID_ARGUMENT)

	m.reset(t, 0)
	mustEqual(t, "corrected after a reset", uint64(0), total(t, d, corrected, nvml.VOLATILE_ECC))
	mustEqual(t, "corrected ever, after a reset", uint64(7), total(t, d, corrected, nvml.AGGREGATE_ECC))

	if os.Geteuid() == 0 {
		mustBe(t, "nvmlDeviceClearEccErrorCounts", d.ClearEccErrorCounts(nvml.AGGREGATE_ECC), nvml.SUCCESS)
		mustEqual(t, "uncorrected ever, after it", uint64(0), total(t, d, uncorrected, nvml.AGGREGATE_ECC))
	}
}

// nvml.h: "Requires ECC Mode to be enabled".
func TestECCModeChangesWithTheReset(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	mustDo(t, m.SetField(0, "ecc", "0"))
	mode := func() []nvml.EnableState {
		current, pending, ret := d.GetEccMode()
		mustBe(t, "nvmlDeviceGetEccMode", ret, nvml.SUCCESS)
		mustEqual(t, "current mode as a field", uint32(current), fieldValue(t, d, nvml.FI_DEV_ECC_CURRENT))
		mustEqual(t, "pending mode as a field", uint32(pending), fieldValue(t, d, nvml.FI_DEV_ECC_PENDING))
		return []nvml.EnableState{current, pending}
	}
	mustEqual(t, "mode", []nvml.EnableState{nvml.FEATURE_ENABLED, nvml.FEATURE_DISABLED}, mode())
	m.reset(t, 0)
	mustEqual(t, "mode after the reset", []nvml.EnableState{nvml.FEATURE_DISABLED, nvml.FEATURE_DISABLED}, mode())
	_, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
	mustBe(t, "nvmlDeviceGetTotalEccErrors", ret, nvml.ERROR_NOT_SUPPORTED)
	mustBe(t, "the field", nvml.Return(read(t, d, nvml.FI_DEV_ECC_DBE_VOL_TOTAL, 0).NvmlReturn), nvml.ERROR_NOT_SUPPORTED)
}

// nvml.h, nvmlDeviceGetMemoryErrorCounter: "Per instance information is currently
// only supported for non-DRAM uncorrectable volatile errors. Querying volatile
// errors using device handles is currently not supported".
func TestECCOfADividedGPU(t *testing.T) {
	m := divided(t, "h100-80")
	uuid, _ := m.carve(t, 0, "1g.10gb")
	m.allow(t, 0, uuid)
	d := device(t, m.session(t), 0)
	mig := migDevices(t, d)[0]
	for name, test := range map[string]struct {
		of   nvml.Device
		kind nvml.MemoryErrorType
		in   nvml.EccCounterType
		at   nvml.MemoryLocation
		want nvml.Return
	}{
		"volatile, of the GPU":            {d, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM, nvml.ERROR_NOT_SUPPORTED},
		"aggregate, of the GPU":           {d, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_SRAM, nvml.SUCCESS},
		"volatile, of the instance":       {mig, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM, nvml.SUCCESS},
		"DRAM of the instance":            {mig, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_DRAM, nvml.ERROR_NOT_SUPPORTED},
		"corrected, of the instance":      {mig, nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM, nvml.ERROR_NOT_SUPPORTED},
		"aggregate, of the instance":      {mig, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_SRAM, nvml.ERROR_NOT_SUPPORTED},
		"a memory that no board reports":  {mig, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_CBU, nvml.ERROR_NOT_SUPPORTED},
		"a kind of error that is unknown": {mig, nvml.MEMORY_ERROR_TYPE_COUNT, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM, nvml.ERROR_INVALID_ARGUMENT},
	} {
		t.Run(name, func(t *testing.T) {
			_, ret := test.of.GetMemoryErrorCounter(test.kind, test.in, test.at)
			mustBe(t, "nvmlDeviceGetMemoryErrorCounter", ret, test.want)
		})
	}
}

// nvml.h, nvmlDeviceGetRemappedRows. Its fields are there in MIG mode too.
func TestRemappedRows(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 1))
	d := device(t, m.session(t), 0)
	for field, value := range map[string]string{"remap-corrected": "4", "remap-uncorrected": "2", "remap-failed": "1"} {
		mustDo(t, m.SetField(0, field, value))
	}
	corrected, uncorrected, pending, failed, ret := d.GetRemappedRows()
	mustBe(t, "nvmlDeviceGetRemappedRows", ret, nvml.SUCCESS)
	mustEqual(t, "rows", []any{4, 2, false, true}, []any{corrected, uncorrected, pending, failed})
	v2, ret := d.GetRemappedRows_v2()
	mustBe(t, "nvmlDeviceGetRemappedRows_v2", ret, nvml.SUCCESS)
	mustEqual(t, "rows by the second version", []uint32{4, 2, 1}, []uint32{v2.CorrActiveRemaps, v2.UncActiveRemaps, v2.BFailureOccurred})
	m.divide(t, 0)
	for id, want := range map[uint32]uint32{
		nvml.FI_DEV_REMAPPED_COR: 4, nvml.FI_DEV_REMAPPED_UNC: 2, nvml.FI_DEV_REMAPPED_PENDING: 0, nvml.FI_DEV_REMAPPED_FAILURE: 1,
	} {
		mustEqual(t, "field", want, fieldValue(t, d, id))
	}
}
