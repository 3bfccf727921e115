package reader

import (
	"sync"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// driver has the versions of the driver. They do not change in a span.
type driver struct {
	mu    sync.Mutex
	known gpu.Driver
	// read has the indices of the versions that need not be read again.
	read map[int]bool
}

// versions returns the versions, and the calls that failed. These failures do not affect the use of
// GPUs. If the driver is gone, the calls for the GPUs fail too.
func (d *driver) versions(lib nvml.Library, proc driverproc.Root) (gpu.Driver, []gpu.Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var missing []gpu.Fault
	for i, read := range []func() error{
		func() error { return assign(lib.DriverVersion, func(v string) { d.known.Version = v }) },
		func() error { return assign(lib.NVMLVersion, func(v string) { d.known.NVMLVersion = v }) },
		func() error {
			return assign(lib.CUDAVersion, func(v int) { d.known.CUDA = gpu.Version{Major: v / 1000, Minor: v % 1000 / 10} })
		},
	} {
		if d.read[i] {
			continue
		}
		if err := read(); err != nil {
			missing = append(missing, *nvml.Fault(err))
			continue
		}
		if d.read == nil {
			d.read = map[int]bool{}
		}
		d.read[i] = true
	}
	out := d.known
	if out.Version == "" {
		out.Version, _ = proc.Version() // after an error, the version stays missing
	}
	return out, missing
}
