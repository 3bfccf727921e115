package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// The symbols that a session cannot do without.
const (
	symInit        = "nvmlInit_v2"
	symShutdown    = "nvmlShutdown"
	symErrorString = "nvmlErrorString"
)

// Library has the calls that concern no single GPU.
type Library struct{ handle[gonvml.Interface] }

func (l Library) init() error     { return do(l.handle, symInit, gonvml.Interface.Init) }
func (l Library) shutdown() error { return do(l.handle, symShutdown, gonvml.Interface.Shutdown) }

// DriverVersion is that of the kernel driver.
func (l Library) DriverVersion() (string, error) {
	return get(l.handle, "nvmlSystemGetDriverVersion", gonvml.Interface.SystemGetDriverVersion)
}

// NVMLVersion is that of the library.
func (l Library) NVMLVersion() (string, error) {
	return get(l.handle, "nvmlSystemGetNVMLVersion", gonvml.Interface.SystemGetNVMLVersion)
}

// CUDAVersion is 1000 times the major number and 10 times the minor one.
func (l Library) CUDAVersion() (int, error) {
	return get(l.handle, "nvmlSystemGetCudaDriverVersion_v2", gonvml.Interface.SystemGetCudaDriverVersion_v2)
}

// DeviceCount is the number of GPUs that NVML shows.
func (l Library) DeviceCount() (int, error) {
	return get(l.handle, "nvmlDeviceGetCount_v2", gonvml.Interface.DeviceGetCount)
}

// Device returns the GPU with an index.
func (l Library) Device(index int) (Device, error) {
	l.gpu = index
	h, err := sub(l.handle, "nvmlDeviceGetHandleByIndex_v2", func(api gonvml.Interface) (gonvml.Device, gonvml.Return) {
		return api.DeviceGetHandleByIndex(index)
	})
	return Device{h}, err
}

// NewEventSet returns an event set, to be freed.
func (l Library) NewEventSet() (EventSet, error) {
	h, err := sub(l.handle, "nvmlEventSetCreate", gonvml.Interface.EventSetCreate)
	return EventSet{h}, err
}
