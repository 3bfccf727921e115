package state

// #include "simstate.h"
import "C"

const (
	percent   = 100
	maxUint32 = 1<<32 - 1
	maxInt64  = 1<<63 - 1
)

func constant(n uint64) func(*telemetry) uint64 {
	return func(*telemetry) uint64 { return n }
}

// number makes a field of a number in the state.
func number[T C.uint8_t | C.uint32_t | C.uint64_t](name string, highest uint64, at func(*telemetry) *T) field {
	return field{
		name: name,
		max:  constant(highest),
		get:  func(t *telemetry) uint64 { return uint64(*at(t)) },
		set:  func(t *telemetry, v uint64) { *at(t) = T(v) },
	}
}

// onlyIf limits a field to products that support it.
func (f field) onlyIf(has func(*telemetry) bool) field {
	f.supported = has
	return f
}

// upTo sets a maximum that differs between GPUs.
func (f field) upTo(highest func(*telemetry) uint64) field {
	f.max = highest
	return f
}

func hasMemorySensor(t *telemetry) bool { return t.gpu.memory_temperature != C.SIM_NO_TEMPERATURE }
func hasNVLink(t *telemetry) bool       { return t.gpu.links > 0 }

// activities returns the names of enum sim_activity, in order.
func activities() []string {
	return []string{
		"utilization-gpu", "utilization-memory", "utilization-encoder", "utilization-decoder", "utilization-jpeg", "utilization-ofa",
		"sm-active", "sm-occupancy", "integer-active", "tensor-active", "dfma-active", "hmma-active", "dmma-active", "imma-active",
		"fp64-active", "fp32-active", "fp16-active", "dram-active",
	}
}

// clockNames returns the names of nvmlClockType_t, in order.
func clockNames() []string {
	return []string{"clock-graphics", "clock-sm", "clock-memory", "clock-video"}
}

// fields returns the numeric fields of SetField.
func fields() []field {
	const hottest = 200
	list := []field{
		number("temperature", hottest, func(t *telemetry) *C.uint32_t { return &t.gpu.temperature }),
		number("memory-temperature", hottest, func(t *telemetry) *C.uint32_t { return &t.gpu.memory_temperature }).onlyIf(hasMemorySensor),
		number("memory-used", 0, func(t *telemetry) *C.uint64_t { return &t.gpu.memory_used }).upTo(usableMemory),
		number("bar1-used", 0, func(t *telemetry) *C.uint64_t { return &t.gpu.bar1_used }).upTo(bar1),
		{
			name: "power", max: constant(maxUint32),
			get: func(t *telemetry) uint64 { return uint64(t.gpu.power) },
			set: func(t *telemetry, v uint64) { C.sim_set_power(t, C.uint32_t(v)) },
		},
		number("power-limit", maxUint32, func(t *telemetry) *C.uint32_t { return &t.gpu.power_limit }),
		number("persistence", 1, func(t *telemetry) *C.uint32_t { return &t.gpu.persistence }),
		number("pcie-replays", maxUint32, func(t *telemetry) *C.uint64_t { return &t.counters.pcie_replays }),
		number("ecc", 1, func(t *telemetry) *C.uint32_t { return &t.gpu.ecc_pending }),
		number("remap-corrected", maxUint32, func(t *telemetry) *C.uint32_t { return &t.gpu.remap_corrected }),
		number("remap-uncorrected", maxUint32, func(t *telemetry) *C.uint32_t { return &t.gpu.remap_uncorrected }),
		number("remap-pending", 1, func(t *telemetry) *C.uint32_t { return &t.gpu.remap_pending }),
		number("remap-failed", 1, func(t *telemetry) *C.uint32_t { return &t.gpu.remap_failed }),
		{name: "nvlinks", max: func(t *telemetry) uint64 { return uint64(t.gpu.links) }, get: linksUp, set: setNVLinks},
		{
			name: numaField, max: constant(1023), //nolint:mnd // more than any machine has
			set: func(t *telemetry, v uint64) { t.gpu.numa_node = C.int32_t(v) },
		},
	}
	for i, name := range activities() {
		list = append(list, number(name, percent, func(t *telemetry) *C.uint8_t { return &t.gpu.active[i] }))
	}
	for i, name := range clockNames() {
		list = append(list, number(name, maxUint32, func(t *telemetry) *C.uint32_t { return &t.gpu.clock[i] }))
	}
	return append(append(list, flows()...), eccFields()...)
}

func usableMemory(t *telemetry) uint64 { return uint64(t.gpu.memory_total - t.gpu.memory_reserved) }
func bar1(t *telemetry) uint64         { return uint64(t.gpu.bar1_total) }

// flows returns the traffic in bytes per second, in the order of enum sim_flow_kind.
func flows() []field {
	const fastest = 1 << 50
	at := func(i int) func(*telemetry) *C.uint64_t {
		return func(t *telemetry) *C.uint64_t { return &t.gpu.flow[i] }
	}
	return []field{
		number("pcie-tx", fastest, at(C.SIM_PCIE_TX)),
		number("pcie-rx", fastest, at(C.SIM_PCIE_RX)),
		number("nvlink-tx", fastest, at(C.SIM_NVLINK_TX)).onlyIf(hasNVLink),
		number("nvlink-rx", fastest, at(C.SIM_NVLINK_RX)).onlyIf(hasNVLink),
	}
}

// eccFields returns the ECC error counters, by counter, memory and error. Each error counts in the
// volatile and in the aggregate counter.
func eccFields() []field {
	var list []field
	for memory, m := range []string{"dram", "sram"} {
		for kind, e := range []string{"corrected", "uncorrected"} {
			at := func(counter int) func(*telemetry) *C.uint64_t {
				return func(t *telemetry) *C.uint64_t { return &t.counters.ecc[counter][memory][kind] }
			}
			volatile := number("ecc-volatile-"+m+"-"+e, maxInt64, at(C.SIM_ECC_VOLATILE))
			volatile.set = func(t *telemetry, v uint64) {
				count, ever := at(C.SIM_ECC_VOLATILE)(t), at(C.SIM_ECC_AGGREGATE)(t)
				if n := C.uint64_t(v); n > *count {
					*ever += n - *count
				}
				*count = C.uint64_t(v)
			}
			list = append(list, volatile, number("ecc-aggregate-"+m+"-"+e, maxInt64, at(C.SIM_ECC_AGGREGATE)))
		}
	}
	return list
}

func linksUp(t *telemetry) (up uint64) {
	for i := range t.gpu.links {
		up += uint64(t.gpu.link[i].up)
	}
	return up
}

// setNVLinks sets the first n links up, and all others down.
func setNVLinks(t *telemetry, n uint64) {
	for i := range uint64(t.gpu.links) {
		t.gpu.link[i].up = 0
		if i < n {
			t.gpu.link[i].up = 1
		}
	}
}
