package load

import "time"

// Fields of state.SetValues.
const (
	utilizationGPU    = "utilization-gpu"
	utilizationMemory = "utilization-memory"
	smActive          = "sm-active"
	memoryUsed        = "memory-used"
	power             = "power"
	powerLimit        = "power-limit"
)

// full is 100 percent.
const full = 100

// The values of a GPU at full utilization: the share of the power between idle and the limit, and
// the warming in °C. They are typical of a training job on air-cooled boards, and not measured.
const (
	fullPower = 90
	warming   = 45
)

// activity returns the values of a load in percent. A kernel that keeps all SMs busy typically
// occupies about half of their warps, tensor cores and memory bandwidth.
func (l Load) activity(now time.Time) map[string]uint64 {
	u := l.at(l.Utilization, now)
	values := map[string]uint64{
		utilizationGPU: u, smActive: u,
		utilizationMemory: u / 2, "sm-occupancy": u / 2, "tensor-active": u / 2, "dram-active": u / 2, //nolint:mnd // half
	}
	for field, r := range l.Fields {
		values[field] = l.at(r, now)
	}
	return values
}

// values returns the values of the GPU under loads. The values that the product does not have are
// left out.
func (d *derivation) values(activity map[string]uint64, memory uint64) map[string]uint64 {
	wanted := activity
	u := activity[utilizationGPU]
	if memory > 0 {
		wanted[memoryUsed] = d.base(memoryUsed) + memory
	}
	idle := d.base(power)
	wanted[power] = idle + (max(d.gpu.Values[powerLimit], idle)-idle)*u*fullPower/full/full
	for _, field := range []string{"temperature", "memory-temperature"} {
		wanted[field] = d.base(field) + u*warming/full
	}
	for field, highest := range d.gpu.Clocks {
		wanted[field] = d.base(field)
		if u > 0 {
			wanted[field] = max(highest, wanted[field])
		}
	}
	for field := range wanted {
		if _, has := d.gpu.Values[field]; !has {
			delete(wanted, field)
		}
	}
	return wanted
}
