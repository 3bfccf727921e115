package smi

import (
	"errors"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

// gpu has the handle and names of a GPU in NVML. err is set if the GPU does not answer.
type gpu struct {
	index      int
	handle     unsafe.Pointer
	uuid, name string
	mig        []migDevice
	err        error
}

// migDevice is a MIG device that this process may use.
type migDevice struct {
	index      int
	handle     unsafe.Pointer
	uuid, name string
}

// gpus returns all GPUs.
func (l *library) gpus() ([]gpu, error) {
	var n uint32
	if err := l.systemValue("nvmlDeviceGetCount_v2", unsafe.Pointer(&n)); err != nil {
		return nil, err
	}
	var gpus []gpu
	for i := range int(n) {
		gpus = append(gpus, l.gpu(i))
	}
	return gpus, nil
}

func (l *library) gpu(index int) gpu {
	g := gpu{index: index}
	if g.handle, g.err = l.handleOf(index); g.err != nil {
		return g
	}
	var errUUID, errName, errMIG error
	g.uuid, errUUID = l.text(g.handle, "nvmlDeviceGetUUID")
	g.name, errName = l.text(g.handle, "nvmlDeviceGetName")
	g.mig, errMIG = l.migDevices(g.handle)
	g.err = errors.Join(errUUID, errName, errMIG)
	return g
}

// migDevices returns the MIG devices of a GPU. A GPU that is not divided has none.
func (l *library) migDevices(gpu unsafe.Pointer) ([]migDevice, error) {
	var n uint32
	if err := l.deviceValue(gpu, "nvmlDeviceGetMaxMigDeviceCount", unsafe.Pointer(&n)); err != nil {
		return nil, err
	}
	var list []migDevice
	for i := range n {
		var handle unsafe.Pointer
		err := l.deviceValueAt(gpu, "nvmlDeviceGetMigDeviceHandleByIndex", i, unsafe.Pointer(&handle))
		if hasCode(err, notFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m := migDevice{index: int(i), handle: handle}
		var errUUID, errName error
		m.uuid, errUUID = l.text(m.handle, "nvmlDeviceGetUUID")
		m.name, errName = l.text(m.handle, "nvmlDeviceGetName")
		if err := errors.Join(errUUID, errName); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
