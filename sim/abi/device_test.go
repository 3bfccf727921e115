package abi_test

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/state"
)

func TestLibrariesExportEverySymbol(t *testing.T) {
	for file, prefix := range map[string]string{"libnvidia-ml.so.1": "nvml", "libcuda.so.1": "cu"} {
		t.Run(file, func(t *testing.T) {
			lib, err := elf.Open(filepath.Join(libraries(t), file))
			mustDo(t, err)
			t.Cleanup(func() { lib.Close() })
			var want, got []string
			for _, symbol := range state.Symbols() {
				if strings.HasPrefix(symbol, prefix) {
					want = append(want, symbol)
				}
			}
			symbols, err := lib.DynamicSymbols()
			mustDo(t, err)
			for _, symbol := range symbols {
				if symbol.Section != elf.SHN_UNDEF {
					got = append(got, symbol.Name)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("symbols (-want +got):\n%s", diff)
			}
			soname, err := lib.DynString(elf.DT_SONAME)
			mustDo(t, err)
			if diff := cmp.Diff([]string{file}, soname); diff != "" {
				t.Errorf("soname (-want +got):\n%s", diff)
			}
		})
	}
}

// product is what NVML reports of a GPU that depends on its model.
type product struct {
	Name         string
	Brand        nvml.BrandType
	Architecture nvml.DeviceArchitecture
	CC           [2]int
	MemoryMiB    uint64
	PCIID        uint32
	MIG          nvml.Return
	NVLinks      int
	Fabric       nvml.Return
}

func TestModels(t *testing.T) {
	tests := map[string]product{
		"a100-40": {"NVIDIA A100-SXM4-40GB", nvml.BRAND_NVIDIA, nvml.DEVICE_ARCH_AMPERE, [2]int{8, 0}, 40960, 0x20b010de, nvml.SUCCESS, 12, nvml.ERROR_NOT_SUPPORTED},
		"a100-80": {"NVIDIA A100-SXM4-80GB", nvml.BRAND_NVIDIA, nvml.DEVICE_ARCH_AMPERE, [2]int{8, 0}, 81920, 0x20b210de, nvml.SUCCESS, 12, nvml.ERROR_NOT_SUPPORTED},
		"h100-80": {"NVIDIA H100 80GB HBM3", nvml.BRAND_NVIDIA, nvml.DEVICE_ARCH_HOPPER, [2]int{9, 0}, 81559, 0x233010de, nvml.SUCCESS, 18, nvml.SUCCESS},
		"l4":      {"NVIDIA L4", nvml.BRAND_NVIDIA, nvml.DEVICE_ARCH_ADA, [2]int{8, 9}, 23034, 0x27b810de, nvml.ERROR_NOT_SUPPORTED, 0, nvml.ERROR_NOT_SUPPORTED},
	}
	for model, want := range tests {
		t.Run(model, func(t *testing.T) {
			m := newMachine(t, state.NewSpec(model, 16))
			lib := m.session(t)
			count, ret := lib.DeviceGetCount()
			mustBe(t, "nvmlDeviceGetCount", ret, nvml.SUCCESS)
			if count != 16 {
				t.Errorf("got %d GPUs, want 16", count)
			}
			for i := range count {
				if diff := cmp.Diff(want, describe(t, device(t, lib, i))); diff != "" {
					t.Errorf("GPU %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func describe(t *testing.T, d nvml.Device) product {
	t.Helper()
	var p product
	var rets [6]nvml.Return
	p.Name, rets[0] = d.GetName()
	p.Brand, rets[1] = d.GetBrand()
	p.Architecture, rets[2] = d.GetArchitecture()
	p.CC[0], p.CC[1], rets[3] = d.GetCudaComputeCapability()
	memory, ret := d.GetMemoryInfo_v2()
	p.MemoryMiB, rets[4] = memory.Total>>20, ret
	pci, ret := d.GetPciInfo()
	p.PCIID, rets[5] = pci.PciDeviceId, ret
	for i, ret := range rets {
		if ret != nvml.SUCCESS {
			t.Errorf("call %d answered %d", i, ret)
		}
	}
	if memory.Reserved+memory.Used+memory.Free != memory.Total {
		t.Errorf("memory does not add up: %+v", memory)
	}
	var current, pending int
	current, pending, p.MIG = d.GetMigMode()
	if current != 0 || pending != 0 {
		t.Errorf("got MIG mode %d, pending %d, want it off", current, pending)
	}
	for {
		up, ret := d.GetNvLinkState(p.NVLinks)
		if ret != nvml.SUCCESS || up != nvml.FEATURE_ENABLED {
			break
		}
		p.NVLinks++
	}
	_, p.Fabric = d.GetGpuFabricInfo()
	return p
}

func TestHandlesByEveryName(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 2))
	lib := m.session(t)
	gpu := m.Show().GPUs[1]
	tests := map[string]struct {
		get  func() (nvml.Device, nvml.Return)
		want nvml.Return
	}{
		"UUID":                  {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID(gpu.UUID) }, nvml.SUCCESS},
		"serial number":         {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleBySerial(gpu.Serial) }, nvml.SUCCESS},
		"full bus id":           {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId("00000000:0F:00.0") }, nvml.SUCCESS},
		"bus id as in sysfs":    {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId("0000:0f:00.0") }, nvml.SUCCESS},
		"bus id, no function":   {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId("0:f:0") }, nvml.SUCCESS},
		"bus id, no domain":     {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId("0f:00.0") }, nvml.SUCCESS},
		"bus id of no GPU":      {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId("0000:ff:00.0") }, nvml.ERROR_NOT_FOUND},
		"bus id that is none":   {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByPciBusId("gpu1") }, nvml.ERROR_INVALID_ARGUMENT},
		"UUID of no GPU":        {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByUUID("GPU-0") }, nvml.ERROR_NOT_FOUND},
		"index behind the last": {func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByIndex(2) }, nvml.ERROR_INVALID_ARGUMENT},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d, ret := test.get()
			mustBe(t, "the look-up", ret, test.want)
			if ret != nvml.SUCCESS {
				return
			}
			if uuid, _ := d.GetUUID(); uuid != gpu.UUID {
				t.Errorf("got GPU %s, want %s", uuid, gpu.UUID)
			}
		})
	}
}

func TestLostGPU(t *testing.T) {
	for how, handle := range map[state.Lost]nvml.Return{
		state.LostHandle: nvml.ERROR_GPU_IS_LOST,
		state.LostCalls:  nvml.SUCCESS,
	} {
		t.Run(string(how), func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 2))
			lib := m.session(t)
			old := device(t, lib, 0)
			mustDo(t, m.Lose(0, how))
			count, _ := lib.DeviceGetCount()
			if count != 2 {
				t.Errorf("got %d GPUs, want the lost one counted: 2", count)
			}
			_, ret := lib.DeviceGetHandleByIndex(0)
			mustBe(t, "nvmlDeviceGetHandleByIndex", ret, handle)
			_, ret = old.GetUUID()
			mustBe(t, "nvmlDeviceGetUUID", ret, nvml.ERROR_GPU_IS_LOST)
			_, ret = device(t, lib, 1).GetUUID()
			mustBe(t, "nvmlDeviceGetUUID of the other GPU", ret, nvml.SUCCESS)
			mustDo(t, m.Heal(0))
			_, ret = old.GetUUID()
			mustBe(t, "nvmlDeviceGetUUID of the healed GPU", ret, nvml.SUCCESS)
		})
	}
}

func TestPluggedAndUnpluggedGPUsCountFromTheNextInit(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 2))
	m.addNode(t, "nvidia2")
	lib := m.session(t)
	gone := device(t, lib, 0)
	stays, _ := device(t, lib, 1).GetUUID()

	mustDo(t, m.Unplug(0))
	slot, err := m.Plug(state.GPUSpec{Model: "a100-40"})
	mustDo(t, err)
	if slot != 0 {
		t.Errorf("got slot %d, want the free one, 0", slot)
	}
	_, ret := gone.GetUUID()
	mustBe(t, "nvmlDeviceGetUUID of the unplugged GPU", ret, nvml.ERROR_GPU_IS_LOST)
	if count, _ := lib.DeviceGetCount(); count != 2 {
		t.Errorf("got %d GPUs within the session, want 2", count)
	}

	_, err = m.Plug(state.GPUSpec{Model: "a100-40"})
	mustDo(t, err)
	mustBe(t, "nvmlShutdown", lib.Shutdown(), nvml.SUCCESS)
	mustBe(t, "nvmlInit", lib.Init(), nvml.SUCCESS)
	if count, _ := lib.DeviceGetCount(); count != 3 {
		t.Errorf("got %d GPUs after the next init, want 3", count)
	}
	if uuid, _ := device(t, lib, 1).GetUUID(); uuid != stays {
		t.Errorf("got GPU %s at index 1, want %s as before", uuid, stays)
	}
}

func TestFieldsReachNVML(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	for field, value := range map[string]string{"temperature": "77", "utilization-gpu": "64", "memory-used": "1048576", "clock-sm": "1500"} {
		mustDo(t, m.SetField(0, field, value))
	}
	temperature, _ := d.GetTemperature(nvml.TEMPERATURE_GPU)
	utilization, _ := d.GetUtilizationRates()
	memory, _ := d.GetMemoryInfo_v2()
	clock, _ := d.GetClockInfo(nvml.CLOCK_SM)
	got := []uint64{uint64(temperature), uint64(utilization.Gpu), memory.Used, uint64(clock)}
	if diff := cmp.Diff([]uint64{77, 64, 1 << 20, 1500}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestPersistenceModeIsSet(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("setting the persistence mode needs root")
	}
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	mustBe(t, "nvmlDeviceSetPersistenceMode", d.SetPersistenceMode(nvml.FEATURE_ENABLED), nvml.SUCCESS)
	if !m.Show().GPUs[0].Persistence {
		t.Error("persistence mode set through NVML is not in the state")
	}
}

func TestStubAnswersNotSupported(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	_, ret := d.GetFanSpeed()
	mustBe(t, "nvmlDeviceGetFanSpeed", ret, nvml.ERROR_NOT_SUPPORTED)
	if got := m.Calls()["nvmlDeviceGetFanSpeed"]; got != 1 {
		t.Errorf("got %d calls counted, want 1", got)
	}
}
