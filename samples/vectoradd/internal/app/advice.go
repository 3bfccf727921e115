package app

import (
	"cmp"
	"errors"
	"fmt"

	"outrigger.dev/samples/vectoradd/internal/cuda"
	"outrigger.dev/samples/vectoradd/internal/devnode"
)

// advice returns the fix for a CUDA result whose cause is outside of this program. For other
// results, it returns "".
func advice(code cuda.Code) string {
	switch code {
	case cuda.CodeOutOfMemory:
		return "the GPU's memory is in use: stop the programs that use it (nvidia-smi lists them), or use fewer --elements"
	case cuda.CodeStubLibrary:
		return "the library is the toolkit's stub, made for linking: remove …/stubs from LD_LIBRARY_PATH"
	case cuda.CodeDeviceUnavailable:
		return "the GPU is held by another process or by its compute mode: nvidia-smi -q -d COMPUTE shows it, nvidia-smi -c DEFAULT resets the mode"
	case cuda.CodeNoDevice:
		return "this process sees no GPU: check CUDA_VISIBLE_DEVICES, and whether the container has a GPU; on a GPU in MIG mode it sees " +
			"only its own MIG device (resources.limits: nvidia.com/mig-…: 1)"
	case cuda.CodeInvalidDevice:
		return "CUDA_VISIBLE_DEVICES names a device that does not exist, or does not match the GPU's MIG configuration: correct it"
	case cuda.CodeNoBinaryForGPU:
		return "the kernel is not supported by this GPU: it needs compute capability 5.2 or newer"
	case cuda.CodeECCUncorrectable:
		return "the GPU's memory has an uncorrectable error: reset it (nvidia-smi --gpu-reset) or replace it"
	case cuda.CodeInvalidPTX:
		return "the kernel is not supported by this driver's compiler: update the driver"
	case cuda.CodeJITCompilerNotFound:
		return "libnvidia-ptxjitcompiler.so.1 of the driver is missing: add it to this container (driver capability compute), or install the complete driver"
	case cuda.CodeUnsupportedPTXVersion:
		return "the kernel is not supported by this driver: update it to one that supports CUDA 9.2 or newer"
	case cuda.CodeOperatingSystem:
		return "the operating system rejected a call of the driver: check the kernel log (dmesg | grep NVRM)"
	case cuda.CodeNotPermitted:
		return "this process lacks a permission: check the device nodes and the container's security profile"
	case cuda.CodeNotSupported:
		return "the kernel or a call is not supported on this device: update the driver"
	case cuda.CodeSystemNotReady:
		return "the system is not ready: start nvidia-fabricmanager on this host, which its NVSwitch needs"
	case cuda.CodeDriverMismatch:
		return "libcuda.so.1 and the loaded kernel module have different versions: restart the container, or load the matching module"
	case cuda.CodeUnknown:
		return "the usual cause is /dev/nvidia-uvm: load nvidia_uvm on the host and add the node to this container"
	default:
		return ""
	}
}

// explain adds the cause and the fix to err, if they are known. fault is the problem with the
// device nodes, or "".
func explain(err error, fault string) error {
	if err == nil {
		return nil
	}
	// Each error of the outermost Join gets its fix.
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, explain(one, fault))
		}
		return errors.Join(all...)
	}
	if failed, ok := errors.AsType[*cuda.Error](err); ok {
		// Only cuInit opens the device nodes, so a later call fails for another reason.
		hint := fault
		if hint == "" || failed.Op != "cuInit" {
			hint = advice(failed.Code)
		}
		return fmt.Errorf("%w: %s", err, cmp.Or(hint, "check the kernel log (dmesg | grep NVRM)"))
	}
	switch {
	case errors.Is(err, cuda.ErrNoLibrary):
		return fmt.Errorf("%w: the driver's libraries are not in this container or on this host: request a GPU for the container "+
			"%s, install the driver, or name the file with --cuda-library", err, devnode.Request())
	case errors.Is(err, errNoDevice):
		return fmt.Errorf("%w: %s", err, cmp.Or(fault, advice(cuda.CodeNoDevice)))
	case errors.Is(err, cuda.ErrNoSymbol):
		return fmt.Errorf("%w: the library is older than CUDA %s or is not NVIDIA's: update the driver", err, minVersion)
	default:
		return err
	}
}
