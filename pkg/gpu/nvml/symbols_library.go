package nvml

import (
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The symbols that every Session needs.
const (
	symInit        = "nvmlInit_v2"
	symShutdown    = "nvmlShutdown"
	symErrorString = "nvmlErrorString"
)

// Library has the calls of NVML that do not concern a single GPU.
type Library struct{ handle[gonvml.Interface] }

func (l Library) init() error     { return invoke(l.handle, symInit, gonvml.Interface.Init) }
func (l Library) shutdown() error { return invoke(l.handle, symShutdown, gonvml.Interface.Shutdown) }

// DriverVersion returns the version of the kernel driver.
func (l Library) DriverVersion() (string, error) {
	return get(l.handle, "nvmlSystemGetDriverVersion", gonvml.Interface.SystemGetDriverVersion)
}

// NVMLVersion returns the version of the library.
func (l Library) NVMLVersion() (string, error) {
	return get(l.handle, "nvmlSystemGetNVMLVersion", gonvml.Interface.SystemGetNVMLVersion)
}

// CUDAVersion returns the newest CUDA version that the driver supports, as 1000 times
// the major number plus 10 times the minor one: 13000 for 13.0.
//
// The symbol with the suffix _v2 reads the version of libcuda.so.1, which a process finds only if
// the driver's libraries are on its search path. In an agent's container they are not. There, the
// symbol without the suffix returns the CUDA version that NVML was released with.
func (l Library) CUDAVersion() (int, error) {
	version, err := get(l.handle, "nvmlSystemGetCudaDriverVersion_v2", gonvml.Interface.SystemGetCudaDriverVersion_v2)
	absent := []gonvml.Return{gonvml.ERROR_NOT_FOUND, gonvml.ERROR_LIBRARY_NOT_FOUND, gonvml.ERROR_FUNCTION_NOT_FOUND}
	if slices.Contains(absent, Code(err)) {
		return get(l.handle, "nvmlSystemGetCudaDriverVersion", gonvml.Interface.SystemGetCudaDriverVersion)
	}
	return version, err
}

// DeviceCount returns the number of GPUs that NVML lists.
func (l Library) DeviceCount() (int, error) {
	return get(l.handle, "nvmlDeviceGetCount_v2", gonvml.Interface.DeviceGetCount)
}

// Device returns the GPU at a position in NVML's list.
func (l Library) Device(position int) (Device, error) {
	l.gpu = position
	h, err := getHandle(l.handle, "nvmlDeviceGetHandleByIndex_v2", func(api gonvml.Interface) (gonvml.Device, gonvml.Return) {
		return api.DeviceGetHandleByIndex(position)
	})
	return Device{h}, err
}

// NewEventSet returns a new event set. The caller frees it.
func (l Library) NewEventSet() (EventSet, error) {
	h, err := getHandle(l.handle, "nvmlEventSetCreate", gonvml.Interface.EventSetCreate)
	return EventSet{h}, err
}
