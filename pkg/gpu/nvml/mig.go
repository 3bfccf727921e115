package nvml

import (
	"cmp"
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// noCap is the minor of a capability of which it is not known.
const noCap = -1

// migSymbols are those without which MIG devices cannot be read. Drivers that
// have the mode have them.
func migSymbols() []string {
	return []string{symMIGCount, symMIGHandle, symGIID, symCIID, symAttributes}
}

// layout reads the MIG devices of one GPU.
type layout struct {
	sess   *session
	parent gonvml.Device
	gpu    *gpu.GPU
	// instances are the GPU instances that were looked at.
	instances map[uint32]instance
}

// instance is what a privileged process is told of a GPU instance; the profile
// is nvmlGpuInstanceProfileInfo_t.id.
type instance struct {
	known   bool
	profile uint32
	place   gpu.Placement
}

// readMIG fills in the MIG devices of a GPU that is in MIG mode. The error is
// for what concerns all of them.
func (s *session) readMIG(h gonvml.Device, g *gpu.GPU) *callError {
	for _, name := range migSymbols() {
		if !s.lib.has[name] {
			return &callError{op: name, ret: gonvml.ERROR_FUNCTION_NOT_FOUND, text: "the library lacks it, and the GPU is in MIG mode"}
		}
	}
	count, ret := h.GetMaxMigDeviceCount()
	if ret != gonvml.SUCCESS {
		return newCallError(symMIGCount, ret)
	}
	l := layout{sess: s, parent: h, gpu: g, instances: map[uint32]instance{}}
	for i := range count {
		d, found, err := l.device(i)
		if err != nil {
			return err
		}
		// While devices are destroyed those behind them may move up, and so be
		// met again. The event of that leads to another look.
		again := slices.ContainsFunc(g.MIG.Devices, func(o gpu.MIGDevice) bool { return d.UUID != "" && o.UUID == d.UUID })
		if found && !again {
			g.MIG.Devices = append(g.MIG.Devices, d)
		}
	}
	slices.SortFunc(g.MIG.Devices, func(a, b gpu.MIGDevice) int {
		return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance),
			cmp.Compare(a.Index, b.Index))
	})
	return nil
}

// device reads the MIG device with an index, if there is one. What fails is read
// once more, since the device may have been destroyed meanwhile; what fails
// again is its Fault.
func (l *layout) device(index int) (d gpu.MIGDevice, found bool, err *callError) {
	for last := false; ; last = true {
		d = gpu.MIGDevice{
			Index: index, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance,
			GPUInstanceCap: noCap, ComputeInstanceCap: noCap,
		}
		handle, ret := l.parent.GetMigDeviceHandleByIndex(index)
		if ret == gonvml.ERROR_NOT_FOUND {
			return d, false, nil
		}
		var call *callError
		if ret == gonvml.SUCCESS {
			call = l.read(handle, &d)
		} else {
			call = newCallError(symMIGHandle, ret)
		}
		switch {
		case call == nil:
			return d, true, nil
		case concernsGPU(call.ret):
			return d, false, call
		case last:
			d.Fault = call.fault()
			return d, true, nil
		}
	}
}

// concernsGPU reports whether the answer to a call for a MIG device says more
// than that this device does not work.
func concernsGPU(ret gonvml.Return) bool {
	return ret == gonvml.ERROR_GPU_IS_LOST || ret == gonvml.ERROR_RESET_REQUIRED ||
		driverGone(ret) && ret != gonvml.ERROR_NO_PERMISSION
}

// read fills d, and returns the first error.
func (l *layout) read(h gonvml.Device, d *gpu.MIGDevice) (first *callError) {
	fail := func(call *callError) {
		if first == nil {
			first = call
		}
	}
	if id, ret := h.GetUUID(); ret != gonvml.SUCCESS {
		fail(newCallError("nvmlDeviceGetUUID", ret))
	} else if d.UUID = gpu.UUID(id); !d.UUID.Valid() {
		d.UUID = ""
		fail(&callError{op: "nvmlDeviceGetUUID", ret: gonvml.ERROR_UNKNOWN, text: fmt.Sprintf("%+q is no UUID", id)})
	}
	if id, ret := h.GetGpuInstanceId(); ret != gonvml.SUCCESS {
		fail(newCallError(symGIID, ret))
	} else {
		d.GPUInstance = uint32(id)
	}
	if id, ret := h.GetComputeInstanceId(); ret != gonvml.SUCCESS {
		fail(newCallError(symCIID, ret))
	} else {
		d.ComputeInstance = uint32(id)
	}
	attributes, ret := h.GetAttributes()
	if ret != gonvml.SUCCESS {
		fail(newCallError(symAttributes, ret))
		return first
	}
	if first == nil {
		fail(l.describe(h, d, attributes))
	}
	return first
}

// describe fills in what follows from the attributes of a device.
func (l *layout) describe(h gonvml.Device, d *gpu.MIGDevice, a gonvml.DeviceAttributes) *callError {
	d.Engines = gpu.Engines{
		Multiprocessors:       int(a.MultiprocessorCount),
		GPUInstanceSlices:     int(a.GpuInstanceSliceCount),
		ComputeInstanceSlices: int(a.ComputeInstanceSliceCount),
		Copy:                  int(a.SharedCopyEngineCount),
		Decoder:               int(a.SharedDecoderCount),
		Encoder:               int(a.SharedEncoderCount),
		JPEG:                  int(a.SharedJpegCount),
		OFA:                   int(a.SharedOfaCount),
	}
	d.MemoryBytes = a.MemorySizeMB << 20
	if d.MemoryBytes == 0 {
		info, ret := h.GetMemoryInfo()
		if ret != gonvml.SUCCESS {
			return newCallError("nvmlDeviceGetMemoryInfo", ret)
		}
		d.MemoryBytes = info.Total
	}
	in := l.instance(d.GPUInstance)
	d.Placement = in.place
	p := gpu.Profile{
		ComputeSlices: d.Engines.ComputeInstanceSlices,
		GPUSlices:     d.Engines.GPUInstanceSlices,
		GB:            gpu.ProfileGB(d.MemoryBytes, l.gpu.MemoryBytes),
		Attribute:     attribute(l.sess.profiles(l.parent, l.gpu), in, d.Engines),
	}
	if _, err := gpu.ParseProfile(p.String()); err != nil {
		return &callError{op: symAttributes, ret: gonvml.ERROR_UNKNOWN, text: err.Error()}
	}
	d.Profile = p
	return nil
}

// instance looks at a GPU instance, once for all devices in it. Drivers tell of
// it to privileged processes alone.
func (l *layout) instance(id uint32) instance {
	if in, ok := l.instances[id]; ok {
		return in
	}
	var in instance
	if l.sess.lib.has[symGI] && l.sess.lib.has[symGIInfo] {
		if h, ret := l.parent.GetGpuInstanceById(int(id)); ret == gonvml.SUCCESS {
			info, ret := h.GetInfo()
			in.known = ret == gonvml.SUCCESS && info.Id == id
			if in.known {
				in.profile = info.ProfileId
				in.place = gpu.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)}
			}
		}
	}
	l.instances[id] = in
	return in
}
