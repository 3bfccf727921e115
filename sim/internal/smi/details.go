package smi

import (
	"fmt"
	"time"
	"unsafe" // for the size of a struct of NVML
)

// unknown stands for a value that is not available.
const unknown = "N/A"

// optional is a value that may be missing, because of the device or the caller's rights.
type optional[T any] struct {
	value T
	known bool
}

func some[T any](value T) optional[T] { return optional[T]{value, true} }

// format returns the formatted value, or "N/A".
func (o optional[T]) format(verb string) string {
	if !o.known {
		return unknown
	}
	return fmt.Sprintf(verb, o.value)
}

// nameOf returns the name of a number, or "N/A".
func nameOf(o optional[uint32], words ...string) string {
	if !o.known || int(o.value) >= len(words) {
		return unknown
	}
	return words[o.value]
}

// The structs of nvml.h.
type (
	// memory is nvmlMemory_v2_t.
	memory struct {
		version                     uint32
		total, reserved, free, used uint64
	}
	// utilization is nvmlUtilization_t, in percent.
	utilization struct{ gpu, memory uint32 }
	// attributes is nvmlDeviceAttributes_t.
	attributes struct {
		sms, copies, decoders, encoders, jpegs, ofas, _, _ uint32
		_                                                  uint64
	}
	// pciInfo is nvmlPciInfo_t.
	pciInfo struct {
		_                                           [16]byte
		domain, bus, device, pciDeviceID, subsystem uint32
		id                                          [32]byte
	}
	// licences is nvmlGridLicensableFeatures_t.
	licences struct {
		supported int32
		count     uint32
		features  [3]licence
	}
	// licence is nvmlGridLicensableFeature_t.
	licence struct {
		_, licensed uint32
		_, product  [128]byte
		enabled     uint32
		expiry      expiry
	}
	// expiry is nvmlGridLicenseExpiry_t.
	expiry struct {
		year                          uint32
		month, day, hour, minute, sec uint16
		status                        uint8
	}
	// processInfo is nvmlProcessInfo_t.
	processInfo struct {
		pid                          uint32
		memory                       uint64
		gpuInstance, computeInstance uint32
	}
)

// memoryVersion is NVML_STRUCT_VERSION(Memory, 2).
const memoryVersion = uint32(unsafe.Sizeof(memory{})) | 2<<24

// noInstance is the instance ID in processInfo of a process on the whole GPU.
const noInstance = 1<<32 - 1

// node has the values of a node that nvidia-smi shows.
type node struct {
	time         time.Time
	driver, cuda string
	attached     int
	devices      []device
}

// device is a GPU with the values that nvidia-smi shows.
type device struct {
	gpu
	pci                                             optional[pciInfo]
	serial, vbios                                   optional[string]
	minor, persistence, display                     optional[uint32]
	fan, temperature, performance                   optional[uint32]
	power, powerLimit                               optional[uint32] // mW
	memory                                          optional[memory]
	utilization                                     optional[utilization]
	eccErrors                                       optional[uint64]
	computeMode, migMode, migPending                optional[uint32]
	architecture                                    optional[uint32]
	linkGeneration, linkWidth                       optional[uint32]
	graphicsClock, smClock, memoryClock, videoClock optional[uint32] // MHz
	licences                                        optional[licences]
	parts                                           []part
	processes                                       []process
}

// part is a MIG device with its values.
type part struct {
	migDevice
	gpuInstance, computeInstance optional[uint32]
	memory                       optional[memory]
	attributes                   optional[attributes]
}

// process is a process that uses a GPU.
type process struct {
	processInfo
	name string
	// kind is C, or M+C for a client of MPS.
	kind string
}
