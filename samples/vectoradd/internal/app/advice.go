package app

import (
	"cmp"
	"errors"
	"fmt"

	"outrigger.dev/samples/vectoradd/internal/cuda"
)

// advice says what to do about a result of CUDA that has its cause outside this
// program. It is empty for the others.
func advice(code cuda.Code) string {
	switch code {
	case cuda.CodeOutOfMemory:
		return "the GPU's memory is in use: end what runs on it (nvidia-smi lists it), or ask for fewer --elements"
	case cuda.CodeStubLibrary:
		return "the library is the toolkit's stub, made for linking: remove …/stubs from LD_LIBRARY_PATH"
	case cuda.CodeDeviceUnavailable:
		return "the GPU is held by another process or by its compute mode: nvidia-smi -q -d COMPUTE shows it, nvidia-smi -c DEFAULT lifts it"
	case cuda.CodeNoDevice:
		return "this process sees no GPU: look at CUDA_VISIBLE_DEVICES, and whether the container was given one; of a GPU in MIG mode it sees " +
			"only a MIG device that it was given (resources.limits: nvidia.com/mig-…: 1)"
	case cuda.CodeInvalidDevice:
		return "a value of CUDA_VISIBLE_DEVICES or the GPU's MIG configuration does not fit"
	case cuda.CodeNoBinaryForGPU:
		return "the kernel is not supported by this GPU: it needs compute capability 5.2 or newer"
	case cuda.CodeECCUncorrectable:
		return "the GPU's memory has an uncorrectable error: reset it (nvidia-smi --gpu-reset) or replace it"
	case cuda.CodeInvalidPTX:
		return "the kernel is not supported by this driver's compiler: update the driver"
	case cuda.CodeJITCompilerNotFound:
		return "libnvidia-ptxjitcompiler.so.1 of the driver is missing: give it to this container (driver capability compute), or install the driver whole"
	case cuda.CodeUnsupportedPTXVersion:
		return "the kernel is not supported by this driver: update it to one that serves CUDA 9.2 or newer"
	case cuda.CodeOperatingSystem:
		return "the operating system refused a call of the driver: look at the kernel's log (dmesg | grep NVRM)"
	case cuda.CodeNotPermitted:
		return "this process lacks a permission: look at the device nodes and at the container's security profile"
	case cuda.CodeNotSupported:
		return "the kernel or a call is not supported on this device: update the driver"
	case cuda.CodeSystemNotReady:
		return "the system is not ready: start nvidia-fabricmanager on this host, as its NVSwitch needs it"
	case cuda.CodeDriverMismatch:
		return "libcuda.so.1 and the loaded kernel module have different versions: restart the container, or load the module that fits"
	case cuda.CodeUnknown:
		return "often /dev/nvidia-uvm: load nvidia_uvm on the host and give the node to this container"
	default:
		return ""
	}
}

// explain adds the cause and the fix to err, as far as they are known. fault is
// what is wrong with the device nodes, or empty.
func explain(err error, fault string) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*cuda.Error](err); ok {
		// The nodes are opened by cuInit, so a later call fails for another cause.
		hint := fault
		if hint == "" || refused.Op != "cuInit" {
			hint = advice(refused.Code)
		}
		return fmt.Errorf("%w: %s", err, cmp.Or(hint, "look at the kernel's log (dmesg | grep NVRM)"))
	}
	switch {
	case errors.Is(err, cuda.ErrNoLibrary):
		return fmt.Errorf("%w: the driver's libraries are not in this container or on this host: request a GPU for the container "+
			"(resources.limits: nvidia.com/gpu: 1; docker run --gpus 1), install the driver, or name the file with --cuda-library", err)
	case errors.Is(err, errNoDevice):
		return fmt.Errorf("%w: %s", err, cmp.Or(fault, advice(cuda.CodeNoDevice)))
	case errors.Is(err, cuda.ErrNoSymbol):
		return fmt.Errorf("%w: the library is older than CUDA %s or not NVIDIA's: update the driver", err, minVersion)
	default:
		return err
	}
}
