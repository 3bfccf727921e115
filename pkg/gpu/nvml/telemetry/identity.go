package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// identity returns the calls for values that identify the GPU and say how it is set up.
func identity() []getter {
	return []getter{
		staticGetter(oneValue("nvmlDeviceGetIndex", DCGM_FI_DEV_NVML_INDEX, 1, gonvml.Device.GetIndex)),
		staticGetter(oneValue("nvmlDeviceGetMinorNumber", DCGM_FI_DEV_GPU_MINOR_NUMBER, 1, gonvml.Device.GetMinorNumber)),
		staticGetter(values("nvmlDeviceGetCudaComputeCapability", both(gonvml.Device.GetCudaComputeCapability), computeCapability, DCGM_FI_CUDA_GPU_COMPUTE_CAPABILITY)),
		oneValue("nvmlDeviceGetComputeMode", DCGM_FI_DEV_GPU_COMPUTE_MODE, 1, gonvml.Device.GetComputeMode),
		oneValue("nvmlDeviceGetPersistenceMode", DCGM_FI_DEV_GPU_PERSISTENCE_MODE, 1, gonvml.Device.GetPersistenceMode),
		values("nvmlDeviceGetEccMode", both(gonvml.Device.GetEccMode), eccMode, DCGM_FI_DEV_ECC_MODE, DCGM_FI_DEV_ECC_PENDING),
		staticGetter(getter{symbol: "nvmlSystemGetCudaDriverVersion_v2", fields: []Field{DCGM_FI_CUDA_DRIVER_VERSION}, readNode: cudaVersion}),
		{symbol: "nvmlDeviceGetCount_v2", fields: []Field{DCGM_FI_SYSTEM_GPU_QUANTITY}, readNode: quantity},
	}
}

// computeCapability puts the major version in the upper 16 of 32 bits, and the minor version in the
// lower ones (dcgm_fields.h).
func computeCapability(version [2]int, put func(Field, float64)) {
	put(DCGM_FI_CUDA_GPU_COMPUTE_CAPABILITY, float64(version[0]<<16|version[1]))
}

func eccMode(modes [2]gonvml.EnableState, put func(Field, float64)) {
	put(DCGM_FI_DEV_ECC_MODE, float64(modes[0]))
	put(DCGM_FI_DEV_ECC_PENDING, float64(modes[1]))
}

// cudaVersion puts 1000 times the major version plus 100 times the minor one (dcgm_fields.h). NVML has
// 10 times the minor one.
func cudaVersion(l nvml.Library, put func(Field, float64)) error {
	version, err := l.CUDAVersion()
	if err == nil {
		put(DCGM_FI_CUDA_DRIVER_VERSION, float64(version/1000*1000+version%1000*10))
	}
	return err
}

func quantity(l nvml.Library, put func(Field, float64)) error {
	count, err := l.DeviceCount()
	if err == nil {
		put(DCGM_FI_SYSTEM_GPU_QUANTITY, float64(count))
	}
	return err
}

// pcieRate returns the getter of the rate of one direction of PCIe, in KB/s. The call blocks for 20 ms.
func pcieRate(f Field, which gonvml.PcieUtilCounter) getter {
	return oneValue("nvmlDeviceGetPcieThroughput", f, 1, func(d gonvml.Device) (uint32, gonvml.Return) { return d.GetPcieThroughput(which) })
}
