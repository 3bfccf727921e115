package smi

import "unsafe" // cgo passes structs as unsafe.Pointer

// Fields of nvmlDeviceGetFieldValues.
const (
	fieldMemoryTemperature = 82
	fieldLinkSpeed         = 164 // in MB/s
	fieldPowerAverage      = 185
	fieldPowerInstant      = 186
)

// fieldValue is nvmlFieldValue_t.
type fieldValue struct {
	id, scope     uint32
	_, _          int64
	_, returnCode uint32
	value         uint64
}

// value returns a field of nvmlDeviceGetFieldValues.
func (r *reader) value(id uint32) optional[uint32] { return r.valueIn(id, 0) }

// valueIn is value for a field with a scope.
func (r *reader) valueIn(id, scope uint32) optional[uint32] {
	v := fieldValue{id: id, scope: scope}
	err := r.lib.deviceValueAt(r.handle, "nvmlDeviceGetFieldValues", 1, unsafe.Pointer(&v))
	return optional[uint32]{uint32(v.value), err == nil && v.returnCode == 0}
}

func useFields() []field {
	memoryOf := func(name string, of func(memory) uint64) field {
		return field{name: name, unit: "MiB", read: func(r *reader) string {
			m := r.memory()
			return optional[uint64]{of(m.value) >> 20, m.known}.format("%d") // from bytes
		}}
	}
	rates := func(name string, of func(utilization) uint32) field {
		return field{name: name, unit: "%", read: func(r *reader) string {
			u := get[utilization](r, "nvmlDeviceGetUtilizationRates")
			return optional[uint32]{of(u.value), u.known}.format("%d")
		}}
	}
	engine := func(name, symbol string) field {
		return field{name: name, unit: "%", read: func(r *reader) string {
			var percent, period uint32
			err := r.lib.deviceValues(r.handle, symbol, unsafe.Pointer(&percent), unsafe.Pointer(&period))
			return optionalOf(r, percent, err).format("%d")
		}}
	}
	power := func(symbol string) func(*reader) optional[uint32] {
		return func(r *reader) optional[uint32] { return get[uint32](r, symbol) }
	}
	limit := func(high bool) func(*reader) optional[uint32] {
		return func(r *reader) optional[uint32] {
			limits := map[bool]*uint32{false: new(uint32), true: new(uint32)}
			err := r.lib.deviceValues(r.handle, "nvmlDeviceGetPowerManagementLimitConstraints", unsafe.Pointer(limits[false]), unsafe.Pointer(limits[true]))
			return optionalOf(r, *limits[high], err)
		}
	}
	return []field{
		number("fan.speed", "%", "nvmlDeviceGetFanSpeed"),
		{name: "pstate", read: func(r *reader) string { return get[uint32](r, "nvmlDeviceGetPerformanceState").format("P%d") }},
		memoryOf("memory.total", func(m memory) uint64 { return m.total }), memoryOf("memory.reserved", func(m memory) uint64 { return m.reserved }),
		memoryOf("memory.used", func(m memory) uint64 { return m.used }), memoryOf("memory.free", func(m memory) uint64 { return m.free }),
		bar1("bar1.total", 0), bar1("bar1.free", 1), bar1("bar1.used", 2), // nvmlBAR1Memory_t
		rates("utilization.gpu", func(u utilization) uint32 { return u.gpu }), rates("utilization.memory", func(u utilization) uint32 { return u.memory }),
		engine("utilization.encoder", "nvmlDeviceGetEncoderUtilization"), engine("utilization.decoder", "nvmlDeviceGetDecoderUtilization"),
		engine("utilization.jpeg", "nvmlDeviceGetJpgUtilization"), engine("utilization.ofa", "nvmlDeviceGetOfaUtilization"),
		numberAt("temperature.gpu", "", "nvmlDeviceGetTemperature", 0),
		{name: "temperature.memory", read: func(r *reader) string { return r.value(fieldMemoryTemperature).format("%d") }},
		{name: "temperature.gpu.tlimit", read: margin},
		watt("power.draw", power("nvmlDeviceGetPowerUsage")),
		watt("power.draw.average", func(r *reader) optional[uint32] { return r.value(fieldPowerAverage) }),
		watt("power.draw.instant", func(r *reader) optional[uint32] { return r.value(fieldPowerInstant) }),
		watt("power.limit", power("nvmlDeviceGetPowerManagementLimit")), watt("enforced.power.limit", power("nvmlDeviceGetEnforcedPowerLimit")),
		watt("power.default_limit", power("nvmlDeviceGetPowerManagementDefaultLimit")), watt("power.min_limit", limit(false)), watt("power.max_limit", limit(true)),
		{name: "power.management", read: func(r *reader) string {
			return map[bool]string{true: "Enabled", false: unknown}[get[uint32](r, "nvmlDeviceGetPowerManagementLimit").known]
		}},
	}
}

// bar1 returns a field of nvmlBAR1Memory_t.
func bar1(name string, part int) field {
	return field{name: name, unit: "MiB", read: func(r *reader) string {
		m := get[[3]uint64](r, "nvmlDeviceGetBAR1MemoryInfo")
		return optional[uint64]{m.value[part] >> 20, m.known}.format("%d") // from bytes
	}}
}

// margin is the distance to the highest temperature at work: nvmlMarginTemperature_t.
func margin(r *reader) string {
	m := struct {
		version uint32
		celsius int32
	}{version: 8 | 1<<24} // NVML_STRUCT_VERSION
	err := r.lib.deviceValue(r.handle, "nvmlDeviceGetMarginTemperature", unsafe.Pointer(&m))
	return optionalOf(r, m.celsius, err).format("%d")
}

func clockFields() []field {
	const mhz = "MHz"
	var list []field
	for kind, names := range [][2]string{{"graphics", "gr"}, {"sm", "sm"}, {"memory", "mem"}, {"video", "video"}} {
		list = append(list,
			numberAt("clocks.current."+names[0], mhz, "nvmlDeviceGetClockInfo", uint32(kind), "clocks."+names[1]),
			numberAt("clocks.max."+names[0], mhz, "nvmlDeviceGetMaxClockInfo", uint32(kind), "clocks.max."+names[1]),
			numberAt("clocks.applications."+names[0], mhz, "nvmlDeviceGetApplicationsClock", uint32(kind), "clocks.applications."+names[1]))
	}
	reasons := func(r *reader) optional[uint64] { return get[uint64](r, "nvmlDeviceGetCurrentClocksEventReasons") }
	list = append(list, field{name: "clocks_event_reasons.active", aliases: []string{"clocks_throttle_reasons.active"}, read: func(r *reader) string { return reasons(r).format("0x%016x") }})
	// The bits of nvmlClocksEventReason….
	for bit, name := range []string{"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"} {
		list = append(list, field{name: "clocks_event_reasons." + name, aliases: []string{"clocks_throttle_reasons." + name}, read: func(r *reader) string {
			active := reasons(r)
			return nameOf(optional[uint32]{uint32(active.value >> bit & 1), active.known}, "Not Active", "Active")
		}})
	}
	return list
}
