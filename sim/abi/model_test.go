package abi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/state"
)

// known is an answer of NVML. A figure that the model does not know is 0, and NVML has to answer
// NOT_SUPPORTED.
func known[T comparable](t *testing.T, what string, got T, ret nvml.Return, want T) {
	t.Helper()
	var zero T
	if want == zero {
		mustBe(t, what, ret, nvml.ERROR_NOT_SUPPORTED)
		return
	}
	mustBe(t, what, ret, nvml.SUCCESS)
	mustEqual(t, what, want, got)
}

// The test reads each data file back through NVML.
func TestModelsThroughNVML(t *testing.T) {
	for _, name := range model.Names() {
		t.Run(name, func(t *testing.T) {
			m, err := model.Builtin(name)
			mustDo(t, err)
			d := device(t, newMachine(t, state.NewSpec(name, 1)).session(t), 0)
			checkIdentity(t, d, m)
			checkFigures(t, d, m)
			checkProfiles(t, d, m)
		})
	}
}

func checkIdentity(t *testing.T, d nvml.Device, m model.Model) {
	t.Helper()
	product, ret := d.GetName()
	known(t, "name", product, ret, m.Product)
	brand, ret := d.GetBrand()
	known(t, "brand", int(brand), ret, m.Brand)
	architecture, ret := d.GetArchitecture()
	known(t, "architecture", int(architecture), ret, m.Architecture)
	major, minor, ret := d.GetCudaComputeCapability()
	known(t, "compute capability", [2]int{major, minor}, ret, m.ComputeCapability)
	pci, ret := d.GetPciInfo()
	mustBe(t, "nvmlDeviceGetPciInfo", ret, nvml.SUCCESS)
	mustEqual(t, "PCI IDs", [2]int{m.PCI.ID, m.PCI.Subsystem}, [2]int{int(pci.PciDeviceId), int(pci.PciSubSystemId)})
	mustEqual(t, "place", [2]int{m.Server.Places[0].Domain, m.Server.Places[0].Bus}, [2]int{int(pci.Domain), int(pci.Bus)})
	vbios, ret := d.GetVbiosVersion()
	known(t, "VBIOS", vbios, ret, m.Firmware.VBIOS)
	part, ret := d.GetBoardPartNumber()
	known(t, "part number", part, ret, m.Firmware.BoardPart)
	image, ret := d.GetInforomImageVersion()
	known(t, "infoROM image", image, ret, m.Firmware.InforomImage)
	ecc, ret := d.GetInforomVersion(nvml.INFOROM_ECC)
	known(t, "infoROM ECC", ecc, ret, m.Firmware.InforomECC)
}

func checkFigures(t *testing.T, d nvml.Device, m model.Model) {
	t.Helper()
	memory, ret := d.GetMemoryInfo_v2()
	mustBe(t, "nvmlDeviceGetMemoryInfo", ret, nvml.SUCCESS)
	mustEqual(t, "memory in MiB", [2]uint64{uint64(m.Memory), uint64(m.Reserved)}, [2]uint64{memory.Total >> 20, memory.Reserved >> 20})
	cores, ret := d.GetNumGpuCores()
	known(t, "cores", cores, ret, m.SMs*m.CoresPerSM)
	generation, ret := d.GetMaxPcieLinkGeneration()
	known(t, "PCIe", generation, ret, m.PCI.Generation)
	limit, ret := d.GetPowerManagementDefaultLimit()
	known(t, "power limit", int(limit), ret, m.Power.Max*1000)
	low, high, ret := d.GetPowerManagementLimitConstraints()
	constraints := [2]int{m.Power.Min * 1000, m.Power.Max * 1000}
	if m.Power.Min == 0 || m.Power.Max == 0 {
		constraints = [2]int{}
	}
	known(t, "power limits", [2]int{int(low), int(high)}, ret, constraints)
	for kind, pair := range map[nvml.ClockType][2]int{
		nvml.CLOCK_GRAPHICS: {m.Idle.Graphics, m.Max.Graphics}, nvml.CLOCK_SM: {m.Idle.SM, m.Max.SM},
		nvml.CLOCK_MEM: {m.Idle.Memory, m.Max.Memory}, nvml.CLOCK_VIDEO: {m.Idle.Video, m.Max.Video},
	} {
		clock, ret := d.GetClockInfo(kind)
		known(t, fmt.Sprint("clock ", kind), int(clock), ret, pair[0])
		clock, ret = d.GetMaxClockInfo(kind)
		known(t, fmt.Sprint("highest clock ", kind), int(clock), ret, pair[1])
	}
	for kind, want := range map[nvml.TemperatureThresholds]int{
		nvml.TEMPERATURE_THRESHOLD_SHUTDOWN: m.Temperature.Shutdown, nvml.TEMPERATURE_THRESHOLD_SLOWDOWN: m.Temperature.Slowdown,
		nvml.TEMPERATURE_THRESHOLD_GPU_MAX: m.Temperature.GPU, nvml.TEMPERATURE_THRESHOLD_MEM_MAX: m.Temperature.Memory,
	} {
		celsius, ret := d.GetTemperatureThreshold(kind)
		known(t, fmt.Sprint("temperature ", kind), int(celsius), ret, want)
	}
}

func checkProfiles(t *testing.T, d nvml.Device, m model.Model) {
	t.Helper()
	want := map[int]kind{}
	if m.MIG != nil {
		for _, p := range m.MIG.Profiles {
			k := kind{
				ID: uint32(p.ID), Slices: uint32(p.Slices), Instances: uint32(p.Max), SMs: uint32(p.SMs), Copy: uint32(p.Copies),
				Decoders: uint32(p.Engines.Decoders), JPEG: uint32(p.Engines.JPEGs), OFA: uint32(p.Engines.OFAs),
				MemoryMB: uint64(p.MemoryMiB), Name: "MIG " + p.Name, Size: uint32(p.Size),
			}
			for _, start := range p.Starts {
				k.Starts = append(k.Starts, uint32(start))
			}
			want[p.Number] = k
		}
	}
	if diff := cmp.Diff(want, profiles(t, d)); diff != "" {
		t.Errorf("MIG profiles (-want +got):\n%s", diff)
	}
}

// figures returns the keys of the figures of a model that are known.
func figures(m model.Model) []string {
	figures := map[string]bool{
		"product": true, "brand": true, "architecture": true, "computeCapability": true, "server": true, "pci.id": true,
		"pci.subsystem": m.PCI.Subsystem != 0, "pci.generation": m.PCI.Generation != 0, "memoryMiB.total": true,
		"memoryMiB.reserved": m.Reserved != 0, "memoryMiB.bar1": m.BAR1 != 0, "processors.sms": m.SMs != 0, "processors.coresPerSM": m.CoresPerSM != 0,
		"engines": m.Engines != (model.Engines{}), "powerW.idle": m.Power.Idle != 0, "powerW.min": m.Power.Min != 0, "powerW.max": m.Power.Max != 0,
		"clocksMHz.idle": m.Idle != (model.Clocks{}), "clocksMHz.max": m.Max != (model.Clocks{}),
		"temperatureC.gpu": m.Temperature.GPU != 0, "temperatureC.slowdown": m.Temperature.Slowdown != 0,
		"temperatureC.shutdown": m.Temperature.Shutdown != 0, "temperatureC.memory": m.Temperature.Memory != 0,
		"firmware.boardPart": m.Firmware.BoardPart != "", "firmware.vbios": m.Firmware.VBIOS != "", "firmware.inforomImage": m.Firmware.InforomImage != "",
		"firmware.inforomOEM": m.Firmware.InforomOEM != "", "firmware.inforomECC": m.Firmware.InforomECC != "",
	}
	var keys []string
	for key, is := range figures {
		if is {
			keys = append(keys, key)
		}
	}
	if m.MIG != nil {
		keys = append(keys, "mig")
		for _, p := range m.MIG.Profiles {
			keys = append(keys, "mig."+p.Name)
		}
	}
	return keys
}

func TestFiguresHaveSources(t *testing.T) {
	for _, name := range model.Names() {
		m, err := model.Builtin(name)
		mustDo(t, err)
		for _, key := range figures(m) {
			if m.Source(key) == "" {
				t.Errorf("%s.yaml: the figure %s has no source", name, key)
			}
		}
		for key := range m.Sources {
			profile, ok := strings.CutPrefix(key, "mig.")
			if ok && !strings.Contains(strings.Join(figures(m), " ")+" ", "mig."+profile+" ") {
				t.Errorf("%s.yaml: a source is for the profile %s, which does not exist", name, profile)
			}
		}
	}
}

// An own model is divided by the program that uses it, as every other model.
func TestAnOwnModelThroughNVML(t *testing.T) {
	m, err := model.ParseOwn("mine", []byte(`{"base": "h100-80", "product": "NVIDIA Mine", "computeCapability": "9.1", "memoryMiB": {"total": 4096, "reserved": 96},
		"mig": {"computeSlices": 2, "memorySlices": 2, "sliceSMs": 7, "profiles": [
			{"name": "1g.2gb", "number": 0, "id": 19, "slices": 1, "size": 1, "starts": [0, 1], "max": 2, "memoryMiB": 1984, "sms": 7, "copies": 1},
			{"name": "2g.4gb", "number": 1, "id": 14, "slices": 2, "size": 2, "starts": [0], "max": 1, "memoryMiB": 4000, "sms": 14, "copies": 2}]}}`))
	mustDo(t, err)
	spec := state.NewSpec("", 1)
	spec.Own = &m
	machine := newMachine(t, spec)
	lib := machine.session(t)
	d := device(t, lib, 0)
	checkIdentity(t, d, m)
	checkFigures(t, d, m)
	checkProfiles(t, d, m)
	_, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	mustBe(t, "nvmlDeviceSetMigMode", ret, nvml.SUCCESS)
	for range 2 {
		compute(t, instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE), nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	}
	var names []string
	for _, mig := range migDevices(t, d) {
		name, ret := mig.GetName()
		mustBe(t, "nvmlDeviceGetName", ret, nvml.SUCCESS)
		names = append(names, name)
	}
	mustEqual(t, "MIG devices", []string{"NVIDIA Mine MIG 1g.2gb", "NVIDIA Mine MIG 1g.2gb"}, names)
}
