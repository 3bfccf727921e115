package reader

import (
	"cmp"
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/profile"
)

// layout reads the MIG devices and the GPU instances of one GPU.
type layout struct {
	view   *view
	parent nvml.Device
	gpu    *gpu.GPU
	// instances are the GPU instances that were read from NVML.
	instances map[uint32]instance
}

// instance holds the answer of NVML about a GPU instance to privileged processes. The profile is
// nvmlGpuInstanceProfileInfo_t.id.
type instance struct {
	known   bool
	profile uint32
	place   gpu.Placement
	// gone is set if the instance does not exist.
	gone bool
}

// readMIG reads the MIG devices and the GPU instances of a GPU in MIG mode. The error is for
// failures that concern all of them.
func (v *view) readMIG(h nvml.Device, g *gpu.GPU) error {
	count, err := h.MaxMIGDevices()
	if err != nil {
		return err
	}
	l := layout{view: v, parent: h, gpu: g, instances: map[uint32]instance{}}
	for i := range count {
		d, found, err := l.device(i)
		if err != nil {
			return err
		}
		// When devices are destroyed, later devices may move up and appear twice. The event of that
		// change causes another snapshot.
		again := slices.ContainsFunc(g.MIG.Devices, func(o gpu.MIGDevice) bool { return d.UUID != "" && o.UUID == d.UUID })
		if found && !again {
			g.MIG.Devices = append(g.MIG.Devices, d)
		}
	}
	slices.SortFunc(g.MIG.Devices, func(a, b gpu.MIGDevice) int {
		return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance),
			cmp.Compare(a.Index, b.Index))
	})
	l.listInstances()
	return nil
}

// device reads the MIG device with an index, if it exists. If a call fails, it reads the device
// once more, because the device may have been destroyed meanwhile. If a call fails again, the
// device gets a Fault.
func (l *layout) device(index int) (d gpu.MIGDevice, found bool, err error) {
	for last := false; ; last = true {
		d = gpu.MIGDevice{
			Index: index, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance,
			GPUInstanceCap: noCap, ComputeInstanceCap: noCap,
		}
		handle, err := l.parent.MIGDevice(index)
		if nvml.Code(err) == gonvml.ERROR_NOT_FOUND {
			return d, false, nil
		}
		if err == nil {
			err = l.read(handle, &d)
		}
		switch {
		case err == nil:
			return d, true, nil
		case concernsGPU(err), nvml.Missing(err):
			return d, false, err
		case last:
			d.Fault = nvml.Fault(err)
			return d, true, nil
		}
	}
}

// concernsGPU reports whether the error of a call for a part of a GPU means that the whole GPU does
// not work.
func concernsGPU(err error) bool {
	code := nvml.Code(err)
	return code == gonvml.ERROR_GPU_IS_LOST || code == gonvml.ERROR_RESET_REQUIRED || nvml.DriverGone(err)
}

// read reads d, and returns the first error.
func (l *layout) read(h nvml.Device, d *gpu.MIGDevice) error {
	id, first := h.UUID()
	if d.UUID = gpu.UUID(id); first == nil && !d.UUID.Valid() {
		first = l.badAnswer("nvmlDeviceGetUUID", fmt.Sprintf("%+q is not a UUID", id))
	}
	if first != nil {
		d.UUID = ""
	}
	if gi, err := h.GPUInstanceID(); err == nil {
		d.GPUInstance = uint32(gi)
	} else {
		first = cmp.Or(first, err)
	}
	if ci, err := h.ComputeInstanceID(); err == nil {
		d.ComputeInstance = uint32(ci)
	} else {
		first = cmp.Or(first, err)
	}
	attributes, err := h.Attributes()
	if first = cmp.Or(first, err); first != nil {
		return first
	}
	return l.describe(h, d, attributes)
}

// describe sets the fields that follow from the attributes of a device.
func (l *layout) describe(h nvml.Device, d *gpu.MIGDevice, a gonvml.DeviceAttributes) error {
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
		info, err := h.MemoryInfo()
		if err != nil {
			return err
		}
		d.MemoryBytes = info.Total
	}
	in := l.instance(d.GPUInstance)
	d.Placement = in.place
	p := gpu.Profile{
		ComputeSlices: d.Engines.ComputeInstanceSlices,
		GPUSlices:     d.Engines.GPUInstanceSlices,
		GB:            gpu.ProfileGB(d.MemoryBytes, l.gpu.MemoryBytes),
		Attribute:     attribute(l.profiles(), in, d.Engines),
	}
	if _, err := gpu.ParseProfile(p.String()); err != nil {
		return l.badAnswer("nvmlDeviceGetAttributes_v2", err.Error())
	}
	d.Profile = p
	return nil
}

// badAnswer returns the error of a call that succeeded with an unusable result.
func (l *layout) badAnswer(symbol, reason string) error {
	return &nvml.Error{Symbol: symbol, GPU: l.gpu.Index, Return: gonvml.ERROR_UNKNOWN, Reason: reason}
}

// listInstances sets the GPU instances: the instances of the devices, and instances without a
// device. The kernel driver keeps a folder for these too.
func (l *layout) listInstances() {
	list := make([]gpu.GPUInstance, 0, len(l.gpu.MIG.Devices))
	for _, d := range l.gpu.MIG.Devices {
		if n := len(list); d.GPUInstance != gpu.NoInstance && (n == 0 || list[n-1].ID != d.GPUInstance) {
			whole := d.Profile
			whole.ComputeSlices = whole.GPUSlices
			list = append(list, gpu.GPUInstance{ID: d.GPUInstance, Profile: whole, Placement: d.Placement})
		}
	}
	for _, id := range l.view.proc.GPUInstances(l.gpu.Minor) {
		if slices.ContainsFunc(list, func(g gpu.GPUInstance) bool { return g.ID == id }) {
			continue
		}
		if in := l.instance(id); !in.gone {
			list = append(list, gpu.GPUInstance{ID: id, Profile: l.profileOf(in), Placement: in.place})
		}
	}
	slices.SortFunc(list, func(a, b gpu.GPUInstance) int { return cmp.Compare(a.ID, b.ID) })
	if len(list) > 0 {
		l.gpu.MIG.GPUInstances = list
	}
}

// profiles returns the kinds of GPU instances that the GPU can have.
func (l *layout) profiles() []profile.Profile {
	list, err := l.view.profiles(l.parent, l.gpu)
	if err != nil {
		l.missing(err)
	}
	return list
}

// profileOf returns the profile of a GPU instance, the zero Profile if NVML does not report it.
func (l *layout) profileOf(in instance) gpu.Profile {
	for _, p := range l.profiles() {
		if in.known && p.Info.Id == in.profile {
			return p.Name(l.gpu.MemoryBytes)
		}
	}
	return gpu.Profile{}
}

// instance reads a GPU instance from NVML, once for all devices in it. Drivers answer only to
// privileged processes.
func (l *layout) instance(id uint32) instance {
	if in, ok := l.instances[id]; ok {
		return in
	}
	var in instance
	h, err := l.parent.GPUInstance(int(id))
	in.gone = nvml.Code(err) == gonvml.ERROR_NOT_FOUND
	if err == nil {
		var info gonvml.GpuInstanceInfo
		info, err = h.Info()
		in.known = err == nil && info.Id == id
		if in.known {
			in.profile = info.ProfileId
			in.place = gpu.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)}
		}
	}
	if err != nil && !in.gone && !hiddenInstance(err) {
		l.missing(err)
	}
	l.instances[id] = in
	return in
}

// hiddenInstance reports whether an error means that the driver hides the instance from this
// process.
func hiddenInstance(err error) bool {
	return unsupported(err) || nvml.Code(err) == gonvml.ERROR_NO_PERMISSION
}

// missing records a failed call for a value that is not needed to use the MIG devices.
func (l *layout) missing(err error) {
	if f := *nvml.Fault(err); !slices.Contains(l.gpu.Missing, f) {
		l.gpu.Missing = append(l.gpu.Missing, f)
	}
}
