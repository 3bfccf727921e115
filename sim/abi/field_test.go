package abi_test

import (
	"encoding/binary"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// fieldValue asks for one field that is an unsigned int.
func fieldValue(t *testing.T, d nvml.Device, id uint32) uint32 {
	t.Helper()
	values := []nvml.FieldValue{{FieldId: id}}
	mustBe(t, "nvmlDeviceGetFieldValues", d.GetFieldValues(values), nvml.SUCCESS)
	mustBe(t, "the field", nvml.Return(values[0].NvmlReturn), nvml.SUCCESS)
	mustEqual(t, "type of the value", uint32(nvml.VALUE_TYPE_UNSIGNED_INT), values[0].ValueType)
	return binary.NativeEndian.Uint32(values[0].Value[:])
}

// nvml.h, nvmlDeviceGetFieldValues: "you must check the nvmlReturn field of
// each value for each individual status".
func TestEachFieldHasAnAnswerOfItsOwn(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	d := device(t, m.session(t), 0)
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION},
		{FieldId: nvml.FI_DEV_RETIRED_SBE}, // of boards before Ampere
		{FieldId: 1 << 20},
	}
	mustBe(t, "nvmlDeviceGetFieldValues", d.GetFieldValues(values), nvml.SUCCESS)
	var got []nvml.Return
	for _, v := range values {
		got = append(got, nvml.Return(v.NvmlReturn))
		if v.Timestamp == 0 {
			t.Errorf("field %d has no time", v.FieldId)
		}
	}
	mustEqual(t, "answers", []nvml.Return{nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT}, got)
}

// nvml.h, nvmlDeviceGpuRecoveryAction_t.
func TestRecoveryActionIsReportedUntilTheReset(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	lib := m.session(t)
	d := device(t, lib, 0)
	set, ret := lib.EventSetCreate()
	mustBe(t, "nvmlEventSetCreate", ret, nvml.SUCCESS)
	t.Cleanup(func() { set.Free() })
	mustBe(t, "nvmlDeviceRegisterEvents", d.RegisterEvents(nvml.EventTypeGpuRecoveryAction, set), nvml.SUCCESS)
	action := func() uint32 { return fieldValue(t, d, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION) }
	mustEqual(t, "action of a healthy GPU", uint32(nvml.GPU_RECOVERY_ACTION_NONE), action())

	mustDo(t, m.SetRecovery(0, "reset"))
	mustEqual(t, "action", uint32(nvml.GPU_RECOVERY_ACTION_GPU_RESET), action())
	event, ret := set.Wait(patience)
	mustBe(t, "nvmlEventSetWait", ret, nvml.SUCCESS)
	// nvml.h, nvmlEventData_t: "eventData is 0 for any other event" than XIDs.
	mustEqual(t, "type and data of the event", []uint64{nvml.EventTypeGpuRecoveryAction, 0}, []uint64{event.EventType, event.EventData})

	m.reset(t, 0)
	mustEqual(t, "action after the reset", uint32(nvml.GPU_RECOVERY_ACTION_NONE), action())
}

// nvml.h, nvmlDeviceGetRemappedRows: "A reset will be required to actually
// remap the row"; NOT_SUPPORTED "if MIG is enabled".
func TestPendingRemapsEndWithTheReset(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 1))
	d := device(t, m.session(t), 0)
	pending := func() bool {
		_, _, pending, failed, ret := d.GetRemappedRows()
		mustBe(t, "nvmlDeviceGetRemappedRows", ret, nvml.SUCCESS)
		mustEqual(t, "failed remaps", false, failed)
		v2, ret := d.GetRemappedRows_v2()
		mustBe(t, "nvmlDeviceGetRemappedRows_v2", ret, nvml.SUCCESS)
		mustEqual(t, "pending by the second version", pending, v2.BPending != 0)
		return pending
	}
	mustEqual(t, "pending at first", false, pending())
	mustDo(t, m.SetField(0, "remap-pending", "1"))
	mustEqual(t, "pending", true, pending())
	m.reset(t, 0)
	mustEqual(t, "pending after the reset", false, pending())

	m.divide(t, 0)
	_, _, _, _, ret := d.GetRemappedRows()
	mustBe(t, "nvmlDeviceGetRemappedRows in MIG mode", ret, nvml.ERROR_NOT_SUPPORTED)
}
