package exporter

import (
	"outrigger.dev/agents/dcgm-exporter/internal/account"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/podresources"
)

// account adds a reading to the accounts of the containers that have the GPU or its GPU instances.
func (e *Exporter) account(d *device, r reading) {
	if e.cfg.Pods == nil {
		return
	}
	users := e.cfg.Pods.Last()
	if users == nil {
		return
	}
	base := account.Reading{Device: account.Device{GPU: d.gpu.UUID, Instance: gpu.NoInstance}, At: r.sample.At}
	if d.gpu.MIG == nil || !d.gpu.MIG.Enabled {
		base.Users = users[d.gpu.UUID]
		base.Joules = value(r.sample.GPU, telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 1e-3)
		e.addReading(base, r, r.sample.GPU)
		return
	}
	for _, i := range d.gpu.MIG.GPUInstances {
		one := base
		one.Instance, one.Joules = i.ID, -1
		for _, m := range d.gpu.MIG.Devices {
			if m.GPUInstance == i.ID {
				one.Users = append(one.Users, users[m.UUID]...)
			}
		}
		e.addReading(one, r, r.sample.Instances[i.ID])
	}
}

// addReading adds values and processes to the reading of a device, and adds the reading to the
// book.
func (e *Exporter) addReading(a account.Reading, r reading, values telemetry.Values) {
	a.Busy = value(values, telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO, 1)
	if a.Busy < 0 {
		a.Busy = value(values, telemetry.DCGM_FI_DEV_GPU_UTIL, 1e-2)
	}
	a.Memory = value(values, telemetry.DCGM_FI_DEV_FB_USED, 1<<20)
	for _, p := range r.sample.Processes {
		if p.Instance != a.Instance {
			continue
		}
		if u, ok := owner(r, p, a.Users); ok {
			e.seesProcesses = true
			a.Processes = append(a.Processes, account.Process{PID: p.PID, User: u, SMSeconds: p.SMSeconds, Memory: p.Memory})
		}
	}
	if a.Processes == nil && e.seesProcesses {
		a.Processes = []account.Process{} // the device is known to have no processes of containers
	}
	e.book.Add(a)
}

// owner returns the container of a process.
func owner(r reading, p telemetry.Process, users []podresources.User) (podresources.User, bool) {
	process, ok := r.owners[int(p.PID)]
	if !ok {
		return podresources.User{}, false
	}
	return process.User(users)
}

// value returns a value multiplied by scale, or -1 if it is unknown.
func value(v telemetry.Values, f telemetry.Field, scale float64) float64 {
	if value, ok := v[f]; ok {
		return value * scale
	}
	return -1
}
