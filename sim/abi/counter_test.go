package abi_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// read asks for one field, in a scope.
func read(t *testing.T, d nvml.Device, id, scope uint32) nvml.FieldValue {
	t.Helper()
	values := []nvml.FieldValue{{FieldId: id, ScopeId: scope}}
	mustBe(t, "nvmlDeviceGetFieldValues", d.GetFieldValues(values), nvml.SUCCESS)
	return values[0]
}

// number asks for one field that is an unsigned long long.
func number(t *testing.T, d nvml.Device, id, scope uint32) uint64 {
	t.Helper()
	v := read(t, d, id, scope)
	mustBe(t, "the field", nvml.Return(v.NvmlReturn), nvml.SUCCESS)
	mustEqual(t, "type of the value", uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG), v.ValueType)
	return binary.NativeEndian.Uint64(v.Value[:])
}

// reading is a counter at some time between two.
type reading struct {
	from, to time.Time
	value    uint64
}

func take(get func() uint64) reading {
	r := reading{from: time.Now()}
	r.value = get()
	r.to = time.Now()
	return r
}

// mustGrow waits until a counter has grown, and checks that it grew at a rate
// per second. slack is by how much one reading may be rounded.
func mustGrow(t *testing.T, what string, perSecond float64, slack uint64, get func() uint64) {
	t.Helper()
	first := take(get)
	last := first
	for last.value < first.value+20*slack+1 || last.from.Sub(first.to) < 20*time.Millisecond {
		last = take(get)
		if last.from.Sub(first.to) > 10*time.Second {
			t.Fatalf("%s stays at %d", what, last.value)
		}
	}
	grown := float64(last.value - first.value)
	least := perSecond*last.from.Sub(first.to).Seconds() - float64(slack)
	most := perSecond*last.to.Sub(first.from).Seconds() + float64(slack)
	if grown < least || grown > most {
		t.Errorf("%s grew by %.0f, want %.0f to %.0f", what, grown, least, most)
	}
}

// mustRest checks that a counter does not grow while another one does.
func mustRest(t *testing.T, what string, get, other func() uint64) {
	t.Helper()
	first, moved := get(), other()
	for other() == moved {
	}
	mustEqual(t, what, first, get())
}

// nvml.h, nvmlDeviceGetTotalEnergyConsumption: "in millijoules (mJ) since the
// driver was last reloaded".
func TestEnergyIsThePowerOverTime(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	lib := m.session(t)
	d := device(t, lib, 0)
	energy := func() uint64 {
		mJ, ret := d.GetTotalEnergyConsumption()
		mustBe(t, "nvmlDeviceGetTotalEnergyConsumption", ret, nvml.SUCCESS)
		return mJ
	}
	for _, id := range []uint32{nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, nvml.FI_DEV_ENERGY} {
		mustDo(t, m.SetField(0, "power", "700000"))
		mustGrow(t, "energy", 700_000, 1, energy)
		mustGrow(t, "energy as a field", 700_000, 1, func() uint64 { return number(t, d, id, 0) })
	}
	before := energy()
	mustDo(t, m.SetField(0, "power", "0"))
	mustDo(t, m.SetField(0, "temperature", "60"))
	if after := energy(); after < before {
		t.Errorf("energy fell from %d to %d mJ", before, after)
	}
	mustDo(t, m.SetDriver(false))
	mustDo(t, m.SetDriver(true))
	mustBe(t, "nvmlShutdown", lib.Shutdown(), nvml.SUCCESS)
	mustBe(t, "nvmlInit", lib.Init(), nvml.SUCCESS)
	d = device(t, lib, 0)
	mustEqual(t, "energy since the driver was loaded", uint64(0), energy())
}

// nvml.h, nvmlDeviceGetPowerUsage: "On Ampere (except GA100) or newer GPUs, the
// API returns power averaged over 1 sec interval. On GA100 and older
// architectures, instantaneous power is returned".
func TestPowerIsAveragedFromAmpereOn(t *testing.T) {
	for model, averaged := range map[string]bool{"a100-80": false, "l4": true, "h200": true} {
		t.Run(model, func(t *testing.T) {
			m := newMachine(t, state.NewSpec(model, 1))
			d := device(t, m.session(t), 0)
			mustDo(t, m.SetField(0, "power", "70000000"))
			power, ret := d.GetPowerUsage()
			mustBe(t, "nvmlDeviceGetPowerUsage", ret, nvml.SUCCESS)
			mustEqual(t, "averaged", averaged, power < 70_000_000)
			mustEqual(t, "power of this moment", uint32(70_000_000), fieldValue(t, d, nvml.FI_DEV_POWER_INSTANT))
			average := read(t, d, nvml.FI_DEV_POWER_AVERAGE, 0)
			if !averaged {
				mustBe(t, "the average", nvml.Return(average.NvmlReturn), nvml.ERROR_NOT_SUPPORTED)
				return
			}
			mustBe(t, "the average", nvml.Return(average.NvmlReturn), nvml.SUCCESS)
			for end := time.Now().Add(5 * time.Minute); power != 70_000_000; {
				if time.Now().After(end) {
					t.Fatalf("the average stays at %d mW", power)
				}
				power, _ = d.GetPowerUsage()
			}
		})
	}
}

// nvml.h, nvmlDeviceGetViolationStatus names the field of each policy;
// nvmlClocksEventReasons the reasons.
func TestTimeWithLimitedClocksIsCounted(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	d := device(t, m.session(t), 0)
	mustDo(t, m.SetField(0, "utilization-gpu", "90"))
	for _, reasons := range []func() (uint64, nvml.Return){d.GetCurrentClocksEventReasons, d.GetCurrentClocksThrottleReasons} {
		mustDo(t, m.SetField(0, "clock-limits", "none"))
		mask, ret := reasons()
		mustBe(t, "the reasons", ret, nvml.SUCCESS)
		mustEqual(t, "reasons", uint64(nvml.ClocksEventReasonNone), mask)
		mustDo(t, m.SetField(0, "clock-limits", "power-cap,hw-thermal"))
		mask, _ = reasons()
		mustEqual(t, "reasons", uint64(nvml.ClocksEventReasonSwPowerCap|nvml.ClocksThrottleReasonHwThermalSlowdown|nvml.ClocksThrottleReasonHwSlowdown), mask)
	}
	field := func(id uint32) func() uint64 { return func() uint64 { return number(t, d, id, 0) } }
	violation := func(policy nvml.PerfPolicyType) func() uint64 {
		return func() uint64 {
			v, ret := d.GetViolationStatus(policy)
			mustBe(t, "nvmlDeviceGetViolationStatus", ret, nvml.SUCCESS)
			if age := time.Since(time.UnixMicro(int64(v.ReferenceTime))); age < 0 || age > time.Minute {
				t.Errorf("reference time is %s ago", age)
			}
			return v.ViolationTime
		}
	}
	const ns = 1e9
	for name, get := range map[string]func() uint64{
		"power cap, as a field":    field(nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP),
		"power cap":                violation(nvml.PERF_POLICY_POWER),
		"hardware, as a field":     field(nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
		"any, as a field":          field(nvml.FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS),
		"any":                      violation(nvml.PERF_POLICY_TOTAL_APP_CLOCKS),
		"below base, as a field":   field(nvml.FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS),
		"below the base of clocks": violation(nvml.PERF_POLICY_TOTAL_BASE_CLOCKS),
	} {
		mustGrow(t, name, ns, 1000, get)
	}
	power := field(nvml.FI_DEV_PERF_POLICY_POWER)
	for name, get := range map[string]func() uint64{
		"thermal, as a field":     field(nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
		"thermal":                 violation(nvml.PERF_POLICY_THERMAL),
		"sync boost":              field(nvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST),
		"power brake":             field(nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
		"board limit":             violation(nvml.PERF_POLICY_BOARD_LIMIT),
		"reliability, as a field": field(nvml.FI_DEV_PERF_POLICY_RELIABILITY),
	} {
		mustRest(t, name, get, power)
	}
	mustDo(t, m.SetField(0, "clock-limits", "none"))
	mustRest(t, "power cap afterwards", power, func() uint64 { return uint64(time.Now().UnixMilli()) })
	_, ret := d.GetViolationStatus(nvml.PerfPolicyType(7))
	mustBe(t, "an unknown policy", ret, nvml.ERROR_INVALID_ARGUMENT)
}

func TestTrafficIsCounted(t *testing.T) {
	const allLinks = 1<<32 - 1
	m := newMachine(t, state.NewSpec("b200", 1))
	d := device(t, m.session(t), 0)
	for field, rate := range map[string]string{"pcie-tx": "3000000000", "pcie-rx": "0", "nvlink-tx": "17179869184", "nvlink-rx": "8192"} {
		mustDo(t, m.SetField(0, field, rate))
	}
	for counter, want := range map[nvml.PcieUtilCounter]uint32{nvml.PCIE_UTIL_TX_BYTES: 3_000_000, nvml.PCIE_UTIL_RX_BYTES: 0} {
		got, ret := d.GetPcieThroughput(counter)
		mustBe(t, "nvmlDeviceGetPcieThroughput", ret, nvml.SUCCESS)
		if got > want || got < want-want/1000 {
			t.Errorf("PCIe counter %d: got %d KB/s, want %d", counter, got, want)
		}
	}
	// nvml.h: "Value can be wrapped".
	var wraps, last uint64
	mustGrow(t, "bytes sent over PCIe", 3e9, 1, func() uint64 {
		low := uint64(fieldValue(t, d, nvml.FI_DEV_PCIE_COUNT_TX_BYTES))
		if low < last {
			wraps++
		}
		last = low
		return wraps<<32 | low
	})
	mustEqual(t, "bytes received over PCIe", uint32(0), fieldValue(t, d, nvml.FI_DEV_PCIE_COUNT_RX_BYTES))

	mustDo(t, m.SetField(0, "nvlinks", "16"))
	link := func(id, scope uint32) func() uint64 { return func() uint64 { return number(t, d, id, scope) } }
	mustGrow(t, "KiB of all links", 16<<20, 1, link(nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, allLinks))
	mustGrow(t, "KiB of a link", 1<<20, 1, link(nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 3))
	mustGrow(t, "bytes of a link", 1<<30, 1, link(nvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES, 15))
	mustRest(t, "bytes of a link that is down", link(nvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES, 17), link(nvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES, 0))
	mustGrow(t, "bytes received", 8192, 16, link(nvml.FI_DEV_NVLINK_COUNT_RCV_BYTES, allLinks))
	mustBe(t, "a link that is not there", nvml.Return(read(t, d, nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 18).NvmlReturn), nvml.ERROR_INVALID_ARGUMENT)
}

func TestNVLinkErrors(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	d := device(t, m.session(t), 0)
	mustDo(t, m.SetField(0, "nvlink-replay-errors", "7:5"))
	mustDo(t, m.SetField(0, "nvlink-replay-errors", "2"))
	for link, want := range map[int]uint64{0: 2, 7: 5, 8: 0} {
		got, ret := d.GetNvLinkErrorCounter(link, nvml.NVLINK_ERROR_DL_REPLAY)
		mustBe(t, "nvmlDeviceGetNvLinkErrorCounter", ret, nvml.SUCCESS)
		mustEqual(t, "errors of a link", want, got)
		mustEqual(t, "errors by the field", want, number(t, d, nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY, uint32(link)))
	}
	mustEqual(t, "errors of link 0", uint64(2), number(t, d, nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, 0))
	mustEqual(t, "errors of link 7", uint64(5), number(t, d, nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L7, 0))
	mustEqual(t, "errors of all links", uint64(7), number(t, d, nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0))
	mustEqual(t, "other errors", uint64(0), number(t, d, nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0))
	_, ret := d.GetNvLinkErrorCounter(18, nvml.NVLINK_ERROR_DL_REPLAY)
	mustBe(t, "errors of a link that is not there", ret, nvml.ERROR_INVALID_ARGUMENT)
	m.reset(t, 0)
	mustEqual(t, "errors after a reset", uint64(0), number(t, d, nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0))
}
