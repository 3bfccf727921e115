package abi_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// patience is how long an event may take before a test gives up.
const patience = uint32(10_000)

func listen(t *testing.T, lib nvml.Interface, devices ...nvml.Device) nvml.EventSet {
	t.Helper()
	set, ret := lib.EventSetCreate()
	mustBe(t, "nvmlEventSetCreate", ret, nvml.SUCCESS)
	t.Cleanup(func() { set.Free() })
	for _, d := range devices {
		mustBe(t, "nvmlDeviceRegisterEvents", d.RegisterEvents(nvml.EventTypeXidCriticalError, set), nvml.SUCCESS)
	}
	return set
}

func wantXID(t *testing.T, set nvml.EventSet, uuid string, code uint64) nvml.EventData {
	t.Helper()
	event, ret := set.Wait(patience)
	mustBe(t, "nvmlEventSetWait", ret, nvml.SUCCESS)
	if event.EventType != nvml.EventTypeXidCriticalError || event.EventData != code {
		t.Errorf("got event type %d data %d, want XID %d", event.EventType, event.EventData, code)
	}
	if got, _ := event.Device.GetUUID(); got != uuid {
		t.Errorf("got an event of %s, want %s", got, uuid)
	}
	return event
}

func TestEventFromAnotherProcessArrives(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 2))
	lib := m.session(t)
	set := listen(t, lib, device(t, lib, 0), device(t, lib, 1))

	other := process(t, "post-xid")
	mustDo(t, other.Start())
	wantXID(t, set, m.Show().GPUs[0].UUID, 63)
	mustDo(t, other.Wait())
}

func TestSetHearsOnlyWhatItListensTo(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 2))
	lib := m.session(t)
	mustDo(t, m.PostXID(0, 31, state.NoInstance, state.NoInstance))
	set := listen(t, lib, device(t, lib, 0))

	mustDo(t, m.PostXID(1, 32, state.NoInstance, state.NoInstance))
	_, ret := set.Wait(0)
	mustBe(t, "nvmlEventSetWait with only earlier and foreign events", ret, nvml.ERROR_TIMEOUT)

	mustDo(t, m.PostXID(0, 33, state.NoInstance, state.NoInstance))
	wantXID(t, set, m.Show().GPUs[0].UUID, 33)
}

func TestSlowListenerKeepsTheLatestEvents(t *testing.T) {
	const posted, ring = 600, 256
	m := newMachine(t, state.NewSpec("l4", 1))
	lib := m.session(t)
	set := listen(t, lib, device(t, lib, 0))
	for i := range uint64(posted) {
		mustDo(t, m.PostXID(0, i+1, state.NoInstance, state.NoInstance))
	}
	for i := range uint64(ring) {
		wantXID(t, set, m.Show().GPUs[0].UUID, posted-ring+i+1)
	}
	_, ret := set.Wait(0)
	mustBe(t, "nvmlEventSetWait after the last event", ret, nvml.ERROR_TIMEOUT)
}

func TestWaitEndsAfterItsTime(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	lib := m.session(t)
	set := listen(t, lib, device(t, lib, 0))
	start := time.Now()
	_, ret := set.Wait(50)
	mustBe(t, "nvmlEventSetWait", ret, nvml.ERROR_TIMEOUT)
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("waited %s, want at least 50ms", took)
	}
}

func TestRegisterRejectsTypesThatGPUsDoNotRaise(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	lib := m.session(t)
	d, set := device(t, lib, 0), listen(t, lib)
	types, ret := d.GetSupportedEventTypes()
	mustBe(t, "nvmlDeviceGetSupportedEventTypes", ret, nvml.SUCCESS)
	if types&nvml.EventTypeXidCriticalError == 0 {
		t.Errorf("got supported types %#x, want XIDs among them", types)
	}
	mustBe(t, "register a power source event", d.RegisterEvents(nvml.EventTypePowerSourceChange, set), nvml.ERROR_NOT_SUPPORTED)
	mustBe(t, "register an unknown event", d.RegisterEvents(1<<60, set), nvml.ERROR_INVALID_ARGUMENT)
}

func TestLostGPURaisesXID79AndThenFailsTheWait(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 2))
	lib := m.session(t)
	lost, works := device(t, lib, 0), device(t, lib, 1)
	uuid := m.Show().GPUs[0].UUID
	set, others := listen(t, lib, lost, works), listen(t, lib, works)

	mustDo(t, m.Lose(0, state.LostHandle))
	event, ret := set.Wait(patience)
	mustBe(t, "the first wait", ret, nvml.SUCCESS)
	if event.EventData != 79 {
		t.Errorf("got XID %d, want 79", event.EventData)
	}
	_, ret = event.Device.GetUUID()
	mustBe(t, "nvmlDeviceGetUUID of the lost GPU", ret, nvml.ERROR_GPU_IS_LOST)
	for range 2 {
		_, ret = set.Wait(patience)
		mustBe(t, "a wait after the events", ret, nvml.ERROR_GPU_IS_LOST)
	}
	_, ret = others.Wait(0)
	mustBe(t, "the wait of a set without the lost GPU", ret, nvml.ERROR_TIMEOUT)

	mustDo(t, m.Heal(0))
	mustDo(t, m.PostXID(0, 13, state.NoInstance, state.NoInstance))
	wantXID(t, set, uuid, 13)
}

func TestDriverThatGoesWakesTheWait(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	lib := m.session(t)
	set := listen(t, lib, device(t, lib, 0))
	answer := make(chan nvml.Return, 1)
	go func() {
		_, ret := set.Wait(patience)
		answer <- ret
	}()
	mustDo(t, m.SetDriver(false))
	mustBe(t, "the wait", <-answer, nvml.ERROR_DRIVER_NOT_LOADED)
	_, ret := lib.DeviceGetCount()
	mustBe(t, "nvmlDeviceGetCount", ret, nvml.ERROR_DRIVER_NOT_LOADED)
	mustDo(t, m.SetDriver(true))
	_, ret = lib.DeviceGetCount()
	mustBe(t, "nvmlDeviceGetCount after the driver came back", ret, nvml.SUCCESS)
}

func TestSystemEventsReportGPUsThatComeAndGo(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 1))
	lib := m.session(t)
	create := nvml.SystemEventSetCreateRequest{Version: nvml.STRUCT_VERSION(nvml.SystemEventSetCreateRequest{}, 1)}
	mustBe(t, "nvmlSystemEventSetCreate", lib.SystemEventSetCreate(&create), nvml.SUCCESS)
	register := nvml.SystemRegisterEventRequest{
		Version:    nvml.STRUCT_VERSION(nvml.SystemRegisterEventRequest{}, 1),
		EventTypes: nvml.SystemEventTypeGpuDriverBind | nvml.SystemEventTypeGpuDriverUnbind,
		Set:        create.Set,
	}
	mustBe(t, "nvmlSystemRegisterEvents", lib.SystemRegisterEvents(&register), nvml.SUCCESS)

	_, err := m.Plug(state.GPUSpec{Model: "a100-40"})
	mustDo(t, err)
	mustDo(t, m.Unplug(0))
	data := make([]nvml.SystemEventData_v1, 4)
	var pin runtime.Pinner
	pin.Pin(&data[0])
	t.Cleanup(pin.Unpin)
	wait := nvml.SystemEventSetWaitRequest{
		Version:   nvml.STRUCT_VERSION(nvml.SystemEventSetWaitRequest{}, 1),
		Timeoutms: patience,
		Set:       create.Set,
		Data:      &data[0],
		DataSize:  uint32(len(data)),
	}
	mustBe(t, "nvmlSystemEventSetWait", lib.SystemEventSetWait(&wait), nvml.SUCCESS)
	if wait.NumEvent != 2 || data[0].EventType != nvml.SystemEventTypeGpuDriverBind ||
		data[1].EventType != nvml.SystemEventTypeGpuDriverUnbind {
		t.Errorf("got %d events %v, want one bind and one unbind", wait.NumEvent, data[:wait.NumEvent])
	}
	if data[1].GpuId != 0x0700 {
		t.Errorf("got GPU %#x unbound, want 0x700, bus 07", data[1].GpuId)
	}
	free := nvml.SystemEventSetFreeRequest{Version: nvml.STRUCT_VERSION(nvml.SystemEventSetFreeRequest{}, 1), Set: create.Set}
	mustBe(t, "nvmlSystemEventSetFree", lib.SystemEventSetFree(&free), nvml.SUCCESS)
}
