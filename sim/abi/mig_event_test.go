package abi_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// nvml.h, nvmlEventMigConfigChange: "MIG configuration change event", of which
// nvmlEventData_t has eventData 0 and no instances.
func TestChangesOfTheConfigurationAreEvents(t *testing.T) {
	m := divided(t, "a100-40")
	lib := m.session(t)
	d := device(t, lib, 0)
	types, ret := d.GetSupportedEventTypes()
	mustBe(t, "nvmlDeviceGetSupportedEventTypes", ret, nvml.SUCCESS)
	if types&nvml.EventMigConfigChange == 0 {
		t.Errorf("got supported types %#x, want changes of the MIG configuration among them", types)
	}
	set, ret := lib.EventSetCreate()
	mustBe(t, "nvmlEventSetCreate", ret, nvml.SUCCESS)
	t.Cleanup(func() { set.Free() })
	mustBe(t, "nvmlDeviceRegisterEvents", d.RegisterEvents(nvml.EventMigConfigChange, set), nvml.SUCCESS)
	changed := func(what string) {
		t.Helper()
		event, ret := set.Wait(patience)
		mustBe(t, "nvmlEventSetWait after "+what, ret, nvml.SUCCESS)
		mustEqual(t, "GPU", uuidOf(t, d), uuidOf(t, event.Device))
		mustEqual(t, "event", []uint64{nvml.EventMigConfigChange, 0, uint64(state.NoInstance), uint64(state.NoInstance)},
			[]uint64{event.EventType, event.EventData, uint64(event.GpuInstanceId), uint64(event.ComputeInstanceId)})
	}

	gi := instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	changed("a GPU instance was made")
	ci := compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	changed("a compute instance was made")
	mustBe(t, "destroy the GPU instance", gi.Destroy(), nvml.ERROR_IN_USE)
	_, ret = set.Wait(0)
	mustBe(t, "nvmlEventSetWait after a change that was rejected", ret, nvml.ERROR_TIMEOUT)
	mustBe(t, "nvmlComputeInstanceDestroy", ci.Destroy(), nvml.SUCCESS)
	changed("the compute instance was destroyed")
	mustBe(t, "nvmlGpuInstanceDestroy", gi.Destroy(), nvml.SUCCESS)
	changed("the GPU instance was destroyed")
}

func TestGPUsWithoutMIGRaiseNoChangesOfIt(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	lib := m.session(t)
	mustBe(t, "nvmlDeviceRegisterEvents", device(t, lib, 0).RegisterEvents(nvml.EventMigConfigChange, listen(t, lib)), nvml.ERROR_NOT_SUPPORTED)
}

// nvml.h, nvmlEventData_t: an XID that is "attributable to" an instance has its
// numbers, any other has 0xFFFFFFFF.
func TestXIDsNameTheInstance(t *testing.T) {
	m := divided(t, "a100-40")
	lib := m.session(t)
	d := device(t, lib, 0)
	gi := uint32(mustID(t, migDevice(t, d)))
	set := listen(t, lib, d)
	for name, want := range map[string][2]uint32{
		"of a compute instance": {gi, 0},
		"of a GPU instance":     {gi, state.NoInstance},
		"of the whole GPU":      {state.NoInstance, state.NoInstance},
	} {
		t.Run(name, func(t *testing.T) {
			mustDo(t, m.PostXID(0, 43, want[0], want[1]))
			event := wantXID(t, set, uuidOf(t, d), 43)
			mustEqual(t, "instances", want, [2]uint32{event.GpuInstanceId, event.ComputeInstanceId})
		})
	}
}
