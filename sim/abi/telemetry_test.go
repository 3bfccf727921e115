package abi_test

import (
	"encoding/binary"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// board is what NVML reports of a product's temperatures and BAR1.
type board struct {
	Shutdown, Slowdown, GPU, Memory uint32
	MemorySensor, TLimit            nvml.Return
	BAR1MiB                         uint64
}

func TestLimitsOfBoards(t *testing.T) {
	const no = nvml.ERROR_NOT_SUPPORTED
	for model, want := range map[string]board{
		"a100-40": {92, 89, 85, 95, nvml.SUCCESS, no, 65536},
		"a30":     {96, 93, 89, 95, nvml.SUCCESS, no, 32768},
		"h200":    {95, 89, 87, 95, nvml.SUCCESS, nvml.SUCCESS, 262144},
		"l4":      {93, 90, 88, 0, no, nvml.SUCCESS, 32768},
	} {
		t.Run(model, func(t *testing.T) {
			d := device(t, newMachine(t, state.NewSpec(model, 1)).session(t), 0)
			threshold := func(kind nvml.TemperatureThresholds) uint32 {
				celsius, ret := d.GetTemperatureThreshold(kind)
				mustEqual(t, "known", celsius != 0, ret == nvml.SUCCESS)
				return celsius
			}
			bar1, ret := d.GetBAR1MemoryInfo()
			mustBe(t, "nvmlDeviceGetBAR1MemoryInfo", ret, nvml.SUCCESS)
			mustEqual(t, "BAR1", bar1.Bar1Total, bar1.Bar1Free+bar1.Bar1Used)
			mustEqual(t, "limits", want, board{
				threshold(nvml.TEMPERATURE_THRESHOLD_SHUTDOWN), threshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN),
				threshold(nvml.TEMPERATURE_THRESHOLD_GPU_MAX), threshold(nvml.TEMPERATURE_THRESHOLD_MEM_MAX),
				nvml.Return(read(t, d, nvml.FI_DEV_MEMORY_TEMP, 0).NvmlReturn),
				nvml.Return(read(t, d, nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, 0).NvmlReturn), bar1.Bar1Total >> 20,
			})
			_, ret = d.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_MIN)
			mustBe(t, "a threshold of boards with fans", ret, no)
			_, ret = d.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_COUNT)
			mustBe(t, "a threshold that is none", ret, nvml.ERROR_INVALID_ARGUMENT)
		})
	}
}

// nvml.h, NVML_FI_DEV_TEMPERATURE_…_TLIMIT: distances, which nvidia-smi prints
// as negative numbers.
func TestTemperatures(t *testing.T) {
	m := newMachine(t, state.NewSpec("h200", 1))
	d := device(t, m.session(t), 0)
	mustDo(t, m.SetField(0, "temperature", "60"))
	mustDo(t, m.SetField(0, "memory-temperature", "71"))
	mustEqual(t, "temperature of the memory", uint32(71), fieldValue(t, d, nvml.FI_DEV_MEMORY_TEMP))
	margin, ret := d.GetMarginTemperature()
	mustBe(t, "nvmlDeviceGetMarginTemperature", ret, nvml.SUCCESS)
	mustEqual(t, "margin", int32(87-60), margin.MarginTemperature)
	for id, want := range map[uint32]int32{
		nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT: -8, nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT: -2,
		nvml.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT: 0, nvml.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT: 0,
	} {
		v := read(t, d, id, 0)
		mustEqual(t, "type of the value", uint32(nvml.VALUE_TYPE_SIGNED_INT), v.ValueType)
		mustEqual(t, "distance", want, int32(binary.NativeEndian.Uint32(v.Value[:])))
	}
}

// engine is a query of the utilisation of one kind of engine.
type engine func() (uint32, uint32, nvml.Return)

func engines(d nvml.Device) map[string]engine {
	return map[string]engine{
		"utilization-encoder": d.GetEncoderUtilization, "utilization-decoder": d.GetDecoderUtilization,
		"utilization-jpeg": d.GetJpgUtilization, "utilization-ofa": d.GetOfaUtilization,
	}
}

// nvml.h of each: "On MIG-enabled GPUs, querying … is not currently supported".
func TestUtilizationOfEngines(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	d := device(t, m.session(t), 0)
	for field, get := range engines(d) {
		mustDo(t, m.SetField(0, field, "37"))
		percent, period, ret := get()
		mustBe(t, field, ret, nvml.SUCCESS)
		mustEqual(t, field, uint32(37), percent)
		mustEqual(t, "there is a period", true, period > 0)
	}
	m.divide(t, 0)
	for field, get := range engines(d) {
		_, _, ret := get()
		mustBe(t, field+" in MIG mode", ret, nvml.ERROR_NOT_SUPPORTED)
	}
}

// nvml.h: in MIG mode "aggregate information, only if the caller has appropriate
// privileges. Per-instance information can be queried by using specific MIG
// device handles".
func TestBAR1OfADividedGPU(t *testing.T) {
	m := divided(t, "a100-40")
	uuid, _ := m.carve(t, 0, "3g.20gb")
	m.allow(t, 0, uuid)
	d := device(t, m.session(t), 0)
	bar1, ret := migDevices(t, d)[0].GetBAR1MemoryInfo()
	mustBe(t, "nvmlDeviceGetBAR1MemoryInfo", ret, nvml.SUCCESS)
	mustEqual(t, "half of the slices", uint64(32<<30), bar1.Bar1Total)
	_, ret = d.GetBAR1MemoryInfo()
	mustBe(t, "nvmlDeviceGetBAR1MemoryInfo of the GPU", ret, nvml.SUCCESS)
}

func TestFirmwareAndClocksOfABoard(t *testing.T) {
	d := device(t, newMachine(t, state.NewSpec("a100-40", 1)).session(t), 0)
	text := func(s string, ret nvml.Return) string {
		mustBe(t, "the version", ret, nvml.SUCCESS)
		return s
	}
	mustEqual(t, "versions", []string{"G506.0200.00.04", "2.0", "6.16"}, []string{
		text(d.GetInforomImageVersion()), text(d.GetInforomVersion(nvml.INFOROM_OEM)), text(d.GetInforomVersion(nvml.INFOROM_ECC)),
	})
	_, ret := d.GetInforomVersion(nvml.INFOROM_POWER)
	mustBe(t, "the version of an object that is not there", ret, nvml.ERROR_NOT_SUPPORTED)
	mustBe(t, "nvmlDeviceValidateInforom", d.ValidateInforom(), nvml.SUCCESS)
	for kind, want := range map[nvml.ClockType]uint32{nvml.CLOCK_GRAPHICS: 1410, nvml.CLOCK_MEM: 1215} {
		clock, ret := d.GetApplicationsClock(kind)
		mustBe(t, "nvmlDeviceGetApplicationsClock", ret, nvml.SUCCESS)
		mustEqual(t, "clock of applications", want, clock)
		clock, ret = d.GetClock(kind, nvml.CLOCK_ID_APP_CLOCK_DEFAULT)
		mustBe(t, "nvmlDeviceGetClock", ret, nvml.SUCCESS)
		mustEqual(t, "clock by its id", want, clock)
	}
	_, ret = d.GetApplicationsClock(nvml.CLOCK_VIDEO)
	mustBe(t, "a clock that applications do not have", ret, nvml.ERROR_NOT_SUPPORTED)
	licence, ret := d.GetGridLicensableFeatures()
	mustBe(t, "nvmlDeviceGetGridLicensableFeatures", ret, nvml.SUCCESS)
	mustEqual(t, "licences", []any{int32(0), uint32(0)}, []any{licence.IsGridLicenseSupported, licence.LicensableFeaturesCount})
}

// nvml.h: the boards have no fan, and remap rows where older ones retire pages.
func TestWhatTheBoardsDoNotHave(t *testing.T) {
	d := device(t, newMachine(t, state.NewSpec("l4", 1)).session(t), 0)
	_, ret := d.GetFanSpeed()
	mustBe(t, "nvmlDeviceGetFanSpeed", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetRetiredPages(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
	mustBe(t, "nvmlDeviceGetRetiredPages", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetNvLinkErrorCounter(0, nvml.NVLINK_ERROR_DL_REPLAY)
	mustBe(t, "nvmlDeviceGetNvLinkErrorCounter", ret, nvml.ERROR_NOT_SUPPORTED)
	for _, id := range []uint32{
		nvml.FI_DEV_RETIRED_SBE, nvml.FI_DEV_RETIRED_DBE, nvml.FI_DEV_RETIRED_PENDING, nvml.FI_DEV_ECC_DBE_VOL_REG,
		nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, nvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES,
	} {
		mustBe(t, "the field", nvml.Return(read(t, d, id, 0).NvmlReturn), nvml.ERROR_NOT_SUPPORTED)
	}
}
