package abi_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/state"
)

// parts makes a 3g.20gb that is split into 2c and 1c, and a 1g.5gb.
func parts(t *testing.T, d nvml.Device) (two, one, small nvml.Device) {
	t.Helper()
	gi := instance(t, d, nvml.GPU_INSTANCE_PROFILE_3_SLICE)
	compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE)
	compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	compute(t, instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE), nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	list := migDevices(t, d)
	if len(list) != 3 {
		t.Fatalf("got %d MIG devices, want 3", len(list))
	}
	return list[0], list[1], list[2]
}

// MIG User Guide, "MIG Device Names": a device is called after the GPU instance,
// and also after the compute instance where that is a part. nvml.h,
// nvmlDeviceAttributes_t: engines and memory are those of the GPU instance.
func TestMIGDevicesReportWhatTheyAre(t *testing.T) {
	type traits struct {
		Name                      string
		Index, GI, CI             int
		SMs, Slices, ComputeSlice uint32
		CopyEngines               uint32
		MemoryMB, Total           uint64
	}
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	two, one, small := parts(t, d)
	var got []traits
	for _, mig := range []nvml.Device{two, one, small} {
		var tr traits
		var rets [6]nvml.Return
		tr.Name, rets[0] = mig.GetName()
		tr.Index, rets[1] = mig.GetIndex()
		tr.GI, rets[2] = mig.GetGpuInstanceId()
		tr.CI, rets[3] = mig.GetComputeInstanceId()
		attributes, ret := mig.GetAttributes()
		rets[4] = ret
		tr.SMs, tr.Slices, tr.ComputeSlice = attributes.MultiprocessorCount, attributes.GpuInstanceSliceCount, attributes.ComputeInstanceSliceCount
		tr.CopyEngines, tr.MemoryMB = attributes.SharedCopyEngineCount, attributes.MemorySizeMB
		memory, ret := mig.GetMemoryInfo_v2()
		tr.Total, rets[5] = memory.Total>>20, ret
		mustEqual(t, "answers", [6]nvml.Return{}, rets)
		is, ret := mig.IsMigDeviceHandle()
		mustBe(t, "nvmlDeviceIsMigDeviceHandle", ret, nvml.SUCCESS)
		mustEqual(t, "is a MIG device", true, is)
		parent, ret := mig.GetDeviceHandleFromMigDeviceHandle()
		mustBe(t, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", ret, nvml.SUCCESS)
		mustEqual(t, "parent", uuidOf(t, d), uuidOf(t, parent))
		got = append(got, tr)
	}
	want := []traits{
		{"NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb", 0, got[0].GI, 0, 28, 3, 2, 3, 19968, 19968},
		{"NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 1, got[0].GI, 1, 14, 3, 1, 3, 19968, 19968},
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 2, got[2].GI, 0, 14, 1, 1, 1, 4864, 4864},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MIG devices (-want +got):\n%s", diff)
	}
	if got[0].GI == got[2].GI {
		t.Error("two GPU instances have one number")
	}
}

// nvml.h, nvmlDeviceGetHandleByUUID: "The UUID of the target GPU or MIG
// instance"; nvmlUUID_t has it as text or as bytes. The form with numbers is
// that of drivers before 470 (MIG User Guide, "CUDA Device Enumeration").
func TestMIGDevicesAreFoundByUUID(t *testing.T) {
	m := divided(t, "a100-40")
	lib := m.session(t)
	d := device(t, lib, 0)
	_, one, _ := parts(t, d)
	uuid := uuidOf(t, one)
	if !strings.HasPrefix(uuid, "MIG-") {
		t.Fatalf("got UUID %s, want one that begins with MIG-", uuid)
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(uuid, "MIG-"), "-", ""))
	mustDo(t, err)
	binary := nvml.UUID{Version: nvml.STRUCT_VERSION(nvml.UUID{}, 1), Type: uint32(nvml.UUID_TYPE_BINARY)}
	copy(binary.Value[:], raw)
	ascii := nvml.UUID{Version: binary.Version, Type: uint32(nvml.UUID_TYPE_ASCII)}
	copy(ascii.Value[:], uuid)
	none := nvml.UUID{Version: binary.Version, Type: uint32(nvml.UUID_TYPE_NONE)}
	tests := map[string]struct {
		get  func() (nvml.Device, nvml.Return)
		want nvml.Return
	}{
		"UUID":              {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID(uuid) }, nvml.SUCCESS},
		"UUID as text":      {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUIDV(&ascii) }, nvml.SUCCESS},
		"UUID as bytes":     {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUIDV(&binary) }, nvml.SUCCESS},
		"UUID of no kind":   {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUIDV(&none) }, nvml.ERROR_INVALID_ARGUMENT},
		"UUID of no one":    {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID("MIG-0") }, nvml.ERROR_NOT_FOUND},
		"numbers":           {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID(numbers(t, d, one)) }, nvml.SUCCESS},
		"numbers of no one": {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID("MIG-" + uuidOf(t, d) + "/99/0") }, nvml.ERROR_NOT_FOUND},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found, ret := test.get()
			mustBe(t, "the look-up", ret, test.want)
			if ret == nvml.SUCCESS {
				mustEqual(t, "UUID", uuid, uuidOf(t, found))
			}
		})
	}
}

func numbers(t *testing.T, parent, mig nvml.Device) string {
	t.Helper()
	ci, ret := mig.GetComputeInstanceId()
	mustBe(t, "nvmlDeviceGetComputeInstanceId", ret, nvml.SUCCESS)
	return fmt.Sprintf("MIG-%s/%d/%d", uuidOf(t, parent), mustID(t, mig), ci)
}

// nvml.h, nvmlDeviceIsMigDeviceHandle: MIG handles work like those of GPUs
// "with some restrictions". It names the answer, NOT_SUPPORTED, for
// nvmlDeviceGetNumGpuCores "of a mig device" and excludes utilization and
// events. For the other functions that only make sense for a whole GPU the
// answer of hardware is not verified.
func TestMIGDevicesAreNoGPUs(t *testing.T) {
	m := divided(t, "a100-40")
	lib := m.session(t)
	d := device(t, lib, 0)
	mig := migDevice(t, d)
	set, ret := lib.EventSetCreate()
	mustBe(t, "nvmlEventSetCreate", ret, nvml.SUCCESS)
	t.Cleanup(func() { set.Free() })
	for name, call := range map[string]func() nvml.Return{
		"cores":       func() nvml.Return { _, ret := mig.GetNumGpuCores(); return ret },
		"utilization": func() nvml.Return { _, ret := mig.GetUtilizationRates(); return ret },
		"events":      func() nvml.Return { return mig.RegisterEvents(nvml.EventTypeXidCriticalError, set) },
		"minor":       func() nvml.Return { _, ret := mig.GetMinorNumber(); return ret },
		"PCI place":   func() nvml.Return { _, ret := mig.GetPciInfo(); return ret },
		"temperature": func() nvml.Return { _, ret := mig.GetTemperature(nvml.TEMPERATURE_GPU); return ret },
		"MIG mode":    func() nvml.Return { _, _, ret := mig.GetMigMode(); return ret },
		"MIG devices": func() nvml.Return { _, ret := mig.GetMigDeviceHandleByIndex(0); return ret },
	} {
		t.Run(name, func(t *testing.T) { mustBe(t, "the call", call(), nvml.ERROR_NOT_SUPPORTED) })
	}
	// nvml.h: "the device or MIG device".
	mode, ret := mig.GetComputeMode()
	mustBe(t, "nvmlDeviceGetComputeMode", ret, nvml.SUCCESS)
	mustEqual(t, "compute mode", nvml.COMPUTEMODE_DEFAULT, mode)
}

// nvml.h: what is asked of MIG devices is an invalid argument for a GPU, but
// nvmlDeviceGetAttributes "currently only supports MIG device handles". In MIG
// mode a GPU reports neither cores nor utilization.
func TestGPUsAreNoMIGDevices(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	is, ret := d.IsMigDeviceHandle()
	mustBe(t, "nvmlDeviceIsMigDeviceHandle", ret, nvml.SUCCESS)
	mustEqual(t, "is a MIG device", false, is)
	_, ret = d.GetGpuInstanceId()
	mustBe(t, "nvmlDeviceGetGpuInstanceId", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = d.GetComputeInstanceId()
	mustBe(t, "nvmlDeviceGetComputeInstanceId", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = d.GetDeviceHandleFromMigDeviceHandle()
	mustBe(t, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = d.GetAttributes()
	mustBe(t, "nvmlDeviceGetAttributes", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetNumGpuCores()
	mustBe(t, "nvmlDeviceGetNumGpuCores", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetUtilizationRates()
	mustBe(t, "nvmlDeviceGetUtilizationRates", ret, nvml.ERROR_NOT_SUPPORTED)
}

// nvml.h, nvmlDeviceGetMaxMigDeviceCount and nvmlDeviceGetMigDeviceHandleByIndex:
// NOT_FOUND "if no valid MIG device was found at index", INVALID_ARGUMENT for an
// index that cannot be.
func TestIndicesOfMIGDevices(t *testing.T) {
	for model, want := range map[string]int{"a100-40": 7, "a30": 4, "h100-80": 7} {
		t.Run(model, func(t *testing.T) {
			m := divided(t, model)
			d := device(t, m.session(t), 0)
			count, ret := d.GetMaxMigDeviceCount()
			mustBe(t, "nvmlDeviceGetMaxMigDeviceCount", ret, nvml.SUCCESS)
			mustEqual(t, "the highest number of MIG devices", want, count)
			_, ret = d.GetMigDeviceHandleByIndex(count - 1)
			mustBe(t, "an index without device", ret, nvml.ERROR_NOT_FOUND)
			_, ret = d.GetMigDeviceHandleByIndex(count)
			mustBe(t, "an index behind the last", ret, nvml.ERROR_INVALID_ARGUMENT)
		})
	}
}

// nvml.h, nvmlProcessInfo_t: in MIG mode an entry has the numbers of the
// instances, and "per-instance information can be queried by using specific MIG
// device handles". The used memory is that of the GPU instance, which its
// compute instances share (MIG User Guide, "Concepts").
func TestProcessesOfMIGDevices(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	two, one, small := parts(t, d)
	gi := mustID(t, two)
	mustDo(t, m.PutProcess(0, state.Process{PID: 11, GPUInstance: gi, ComputeInstance: 0, MemoryBytes: 1 << 30}))
	mustDo(t, m.PutProcess(0, state.Process{PID: 12, GPUInstance: gi, ComputeInstance: 1, MemoryBytes: 2 << 30}))
	want := []nvml.ProcessInfo{
		{Pid: 11, UsedGpuMemory: 1 << 30, GpuInstanceId: uint32(gi), ComputeInstanceId: 0},
		{Pid: 12, UsedGpuMemory: 2 << 30, GpuInstanceId: uint32(gi), ComputeInstanceId: 1},
	}
	tests := map[string]struct {
		device nvml.Device
		want   []nvml.ProcessInfo
		used   uint64
	}{
		"the GPU":                      {d, want, 3 << 30},
		"one compute instance":         {two, want[:1], 3 << 30},
		"the other":                    {one, want[1:], 3 << 30},
		"another GPU instance, unused": {small, []nvml.ProcessInfo{}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ret := test.device.GetComputeRunningProcesses()
			mustBe(t, "nvmlDeviceGetComputeRunningProcesses", ret, nvml.SUCCESS)
			mustEqual(t, "processes", test.want, got)
			memory, ret := test.device.GetMemoryInfo_v2()
			mustBe(t, "nvmlDeviceGetMemoryInfo", ret, nvml.SUCCESS)
			mustEqual(t, "used memory", test.used, memory.Used)
			mustEqual(t, "sum", memory.Total, memory.Reserved+memory.Used+memory.Free)
		})
	}
}
