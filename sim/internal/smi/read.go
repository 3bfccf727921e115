package smi

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

// reader reads the values of one device.
type reader struct {
	lib    *library
	handle unsafe.Pointer
	err    error
	// gpu and node are set for fields.
	gpu  gpu
	node nodeInfo
}

// nodeInfo has values that are the same for all GPUs.
type nodeInfo struct {
	time   time.Time
	driver string
	count  int
}

// optionalOf returns the value that NVML has written, unless err is set. The value is unknown if
// the device does not support it, if the caller has no permission to read it, or if the library
// lacks the function. The reader keeps any other error.
func optionalOf[T any](r *reader, value T, err error) optional[T] {
	if err == nil {
		return some(value)
	}
	if !hasCode(err, notSupported, noPermission, functionNotFound) {
		r.err = errors.Join(r.err, err)
	}
	return optional[T]{}
}

// get returns the result of a function for the device.
func get[T any](r *reader, symbol string) optional[T] {
	var value T
	err := r.lib.deviceValue(r.handle, symbol, unsafe.Pointer(&value))
	return optionalOf(r, value, err)
}

// getAt returns the result of a function for the device and a kind.
func getAt[T any](r *reader, symbol string, kind uint32) optional[T] {
	var value T
	err := r.lib.deviceValueAt(r.handle, symbol, kind, unsafe.Pointer(&value))
	return optionalOf(r, value, err)
}

func (r *reader) text(symbol string) optional[string] {
	value, err := r.lib.text(r.handle, symbol)
	return optionalOf(r, value, err)
}

func (r *reader) memory() optional[memory] {
	value := memory{version: memoryVersion}
	err := r.lib.deviceValue(r.handle, "nvmlDeviceGetMemoryInfo_v2", unsafe.Pointer(&value))
	return optionalOf(r, value, err)
}

// cuda returns the newest CUDA version that the driver supports.
func (l *library) cuda() string {
	var version int32
	if l.systemValue("nvmlSystemGetCudaDriverVersion_v2", unsafe.Pointer(&version)) != nil {
		return unknown
	}
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10)
}

// node reads the values that nvidia-smi shows of some GPUs. attached is the number of all GPUs.
func (l *library) node(gpus []gpu, attached int) (node, error) {
	n := node{time: time.Now(), cuda: l.cuda(), attached: attached}
	var err error
	if n.driver, err = l.driver(); err != nil {
		return n, err
	}
	for _, g := range gpus {
		n.devices = append(n.devices, l.device(g))
	}
	return n, err
}

// device reads the values of a GPU.
func (l *library) device(g gpu) device {
	d := device{gpu: g}
	if g.err != nil {
		return d
	}
	const volatile, uncorrected = 0, 1
	r := &reader{lib: l, handle: g.handle}
	d.pci = get[pciInfo](r, "nvmlDeviceGetPciInfo_v3")
	d.serial, d.vbios = r.text("nvmlDeviceGetSerial"), r.text("nvmlDeviceGetVbiosVersion")
	d.minor = get[uint32](r, "nvmlDeviceGetMinorNumber")
	d.architecture = get[uint32](r, "nvmlDeviceGetArchitecture")
	d.persistence = get[uint32](r, "nvmlDeviceGetPersistenceMode")
	d.display = get[uint32](r, "nvmlDeviceGetDisplayActive")
	d.fan = get[uint32](r, "nvmlDeviceGetFanSpeed")
	d.temperature = getAt[uint32](r, "nvmlDeviceGetTemperature", 0)
	d.performance = get[uint32](r, "nvmlDeviceGetPerformanceState")
	d.power = get[uint32](r, "nvmlDeviceGetPowerUsage")
	d.powerLimit = get[uint32](r, "nvmlDeviceGetEnforcedPowerLimit")
	d.memory = r.memory()
	d.utilization = get[utilization](r, "nvmlDeviceGetUtilizationRates")
	var count uint64
	err := l.deviceValueAt2(g.handle, "nvmlDeviceGetTotalEccErrors", uncorrected, volatile, unsafe.Pointer(&count))
	d.eccErrors = optionalOf(r, count, err)
	d.computeMode = get[uint32](r, "nvmlDeviceGetComputeMode")
	var current, pending uint32
	err = l.deviceValues(g.handle, "nvmlDeviceGetMigMode", unsafe.Pointer(&current), unsafe.Pointer(&pending))
	d.migMode, d.migPending = optionalOf(r, current, err), optionalOf(r, pending, err)
	d.linkGeneration = get[uint32](r, "nvmlDeviceGetCurrPcieLinkGeneration")
	d.linkWidth = get[uint32](r, "nvmlDeviceGetCurrPcieLinkWidth")
	for kind, clock := range []*optional[uint32]{&d.graphicsClock, &d.smClock, &d.memoryClock, &d.videoClock} {
		*clock = getAt[uint32](r, "nvmlDeviceGetClockInfo", uint32(kind))
	}
	d.licences = get[licences](r, "nvmlDeviceGetGridLicensableFeatures_v4")
	for _, m := range g.mig {
		d.parts = append(d.parts, l.part(m, r))
	}
	d.processes = l.processes(r)
	d.err = r.err
	return d
}

// part reads the values of a MIG device. It stores errors in the reader of the GPU.
func (l *library) part(m migDevice, of *reader) part {
	r := &reader{lib: l, handle: m.handle}
	p := part{
		migDevice:       m,
		gpuInstance:     get[uint32](r, "nvmlDeviceGetGpuInstanceId"),
		computeInstance: get[uint32](r, "nvmlDeviceGetComputeInstanceId"),
		memory:          r.memory(),
		attributes:      get[attributes](r, "nvmlDeviceGetAttributes_v2"),
	}
	of.err = errors.Join(of.err, r.err)
	return p
}

// processes returns the processes that use a GPU. NVML does not report process names to every user.
func (l *library) processes(r *reader) []process {
	return append(l.processesOf(r, "nvmlDeviceGetComputeRunningProcesses_v3", "C"),
		l.processesOf(r, "nvmlDeviceGetMPSComputeRunningProcesses_v3", "M+C")...)
}

// processesOf returns the processes that a function of NVML lists, as processes of a kind.
func (l *library) processesOf(r *reader, symbol, kind string) []process {
	count := uint32(1024)
	infos := make([]processInfo, count)
	err := l.deviceValues(r.handle, symbol, unsafe.Pointer(&count), unsafe.Pointer(&infos[0]))
	if !optionalOf(r, count, err).known {
		return nil
	}
	var list []process
	for _, info := range infos[:count] {
		name, err := l.processName(info.pid)
		if err != nil {
			name = "[Not Found]"
		}
		list = append(list, process{info, name, kind})
	}
	return list
}

// busID returns the PCI bus ID, such as 00000000:18:00.0.
func (d device) busID() string {
	if !d.pci.known {
		return unknown
	}
	id, _, _ := bytes.Cut(d.pci.value.id[:], []byte{0})
	return string(id)
}
