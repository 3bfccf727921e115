package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// processes adds up the utilization of the processes on a GPU.
type processes struct {
	// seen is the time stamp of the newest sample of the driver, in microseconds.
	seen uint64
	// busy has an entry for each running process.
	busy map[uint32]*busyTime
}

// busyTime is the time that a process has kept the GPU busy.
type busyTime struct {
	seconds float64
	// until is the time stamp of the last sample.
	until uint64
}

// longestGap is the longest time between two samples of a process, in microseconds. After a longer
// time, the second sample does not count, because the driver had no samples.
const longestGap = 30_000_000

// update applies the running processes, and the samples since the last update. A sample says how
// busy the process was since the sample before.
func (p *processes) update(running []gonvml.ProcessInfo, samples []gonvml.ProcessUtilizationSample) []Process {
	if p.busy == nil {
		p.busy = map[uint32]*busyTime{}
	}
	alive := make(map[uint32]bool, len(running))
	for _, r := range running {
		alive[r.Pid] = true
	}
	for pid := range p.busy {
		if !alive[pid] {
			delete(p.busy, pid)
		}
	}
	since := p.seen
	for _, s := range samples {
		p.seen = max(p.seen, s.TimeStamp)
		if !alive[s.Pid] {
			continue
		}
		b := p.busy[s.Pid]
		if b == nil {
			// The first update has no earlier time stamp. Its sample only sets the time stamp.
			b = &busyTime{until: since}
			p.busy[s.Pid] = b
		}
		if b.until > 0 && s.TimeStamp > b.until && s.TimeStamp-b.until <= longestGap {
			b.seconds += float64(s.TimeStamp-b.until) * float64(min(s.SmUtil, 100)) / 100 / 1e6
		}
		b.until = max(b.until, s.TimeStamp)
	}
	out := make([]Process, 0, len(running))
	for _, r := range running {
		one := Process{PID: r.Pid, Instance: r.GpuInstanceId, Memory: r.UsedGpuMemory}
		if one.Memory == notAvailable {
			one.Memory = 0
		}
		if r.GpuInstanceId >= noInstance {
			one.Instance = gpu.NoInstance
		}
		if b := p.busy[r.Pid]; b != nil {
			one.SMSeconds = b.seconds
		}
		out = append(out, one)
	}
	return out
}

// notAvailable is the value that NVML reports for an unknown amount of memory.
const notAvailable = ^uint64(0)

// noInstance is the lowest of the values that NVML reports for a process without a GPU instance.
const noInstance = 0xFFFFFFF0
