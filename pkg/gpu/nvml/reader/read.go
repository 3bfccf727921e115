package reader

import (
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/text"
)

// device reads one GPU or, if again is set, only the values that the last reading lacks. A GPU has
// a Fault if it gives no handle, is lost, or its MIG mode is not known. Other failed calls are in
// failed. The error means that the driver is gone or too old.
func (v *view) device(index int, again bool) (device, error) {
	d, due := v.memory.begin(index, again)
	var err error
	d.handle, err = v.handle(index)
	switch {
	case concernsNode(err):
		return d, err
	case err != nil:
		d.gpu.Fault = nvml.Fault(err)
		v.memory.read(d)
		return d, nil
	}
	if err := v.constants(&d, due); err != nil {
		return d, err
	}
	if err := v.state(&d, due); err != nil {
		return d, err
	}
	if d.gpu.Fault != nil {
		// The GPU may need another handle when it works again.
		v.memory.keepHandle(index, nvml.Device{})
	}
	v.memory.read(d)
	return d, nil
}

// handle returns the handle of a GPU.
func (v *view) handle(index int) (nvml.Device, error) {
	if h, ok := v.memory.handle(index); ok {
		return h, nil
	}
	h, err := v.span.Library().Device(index)
	if err == nil {
		v.memory.keepHandle(index, h)
	}
	return h, err
}

// concernsNode reports whether an error of a call that every GPU must support means that no GPU of
// the node can be used.
func concernsNode(err error) bool { return nvml.DriverGone(err) || nvml.Missing(err) }

// lost reports whether an error means that the GPU does not work. Other errors only concern the
// requested value.
func lost(err error) bool {
	code := nvml.Code(err)
	return code == gonvml.ERROR_GPU_IS_LOST || code == gonvml.ERROR_RESET_REQUIRED
}

// unsupported reports whether an error means that the value does not exist for the library, the
// driver or the GPU.
func unsupported(err error) bool {
	code := nvml.Code(err)
	return code == gonvml.ERROR_NOT_SUPPORTED || unknownForm(err)
}

// failure is a failed call for an unknown value.
type failure struct {
	// value is the symbol of a constant, or the name of a part of the state.
	value string
	err   error
	// lacks reports whether the GPU cannot be used without the value.
	lacks func(*gpu.GPU) bool
}

// fail records a failed call of the device for a value.
func (d *device) fail(value string, err error, lacks func(*gpu.GPU) bool) {
	if !lost(err) {
		d.failed = append(d.failed, failure{value, err, lacks})
	} else if d.gpu.Fault == nil {
		d.gpu.Fault = nvml.Fault(err)
	}
}

// settle makes the device faulty if it lacks a value that is needed to use it. Other values that
// could not be read are missing.
func (d *device) settle() {
	for _, f := range d.failed {
		switch {
		case d.gpu.Fault != nil:
		case f.lacks != nil && f.lacks(&d.gpu):
			d.gpu.Fault = nvml.Fault(f.err)
		default:
			d.gpu.Missing = append(d.gpu.Missing, *nvml.Fault(f.err))
		}
	}
	if d.gpu.Fault != nil {
		d.gpu.Missing = nil
	}
}

// constantValue is a value of a GPU that does not change while NVML is initialized.
type constantValue struct {
	symbol string
	read   func(nvml.Device, *gpu.GPU) error
	// lacks is set for a value that is needed to use the GPU.
	lacks func(*gpu.GPU) bool
	// optional is set for a value that some drivers or GPUs do not have.
	optional bool
}

const (
	symPCI   = "nvmlDeviceGetPciInfo_v3"
	symUUID  = "nvmlDeviceGetUUID"
	symMinor = "nvmlDeviceGetMinorNumber"
)

func constants() []constantValue {
	pci := constant(symPCI, gonvml.Device.GetPciInfo, func(g *gpu.GPU, info gonvml.PciInfo) { g.PCI = nvml.PCI(info) })
	pci.lacks = func(g *gpu.GPU) bool { return g.PCI.BusID == "" }
	uuid := constant(symUUID, gonvml.Device.GetUUID, func(g *gpu.GPU, id string) { g.UUID = gpu.UUID(id) })
	uuid.lacks = func(g *gpu.GPU) bool { return g.UUID == "" }
	minor := constant(symMinor, gonvml.Device.GetMinorNumber, func(g *gpu.GPU, minor int) { g.Minor = minor })
	minor.lacks = func(g *gpu.GPU) bool { return g.Minor == noMinor }
	brand := constant("nvmlDeviceGetBrand", gonvml.Device.GetBrand, func(g *gpu.GPU, b gonvml.BrandType) { g.Brand = brandName(b) })
	architecture := constant("nvmlDeviceGetArchitecture", gonvml.Device.GetArchitecture, func(g *gpu.GPU, a gonvml.DeviceArchitecture) {
		g.Architecture = architectureName(a)
	})
	brand.optional, architecture.optional = true, true
	return []constantValue{
		pci, uuid, minor,
		constant("nvmlDeviceGetName", gonvml.Device.GetName, func(g *gpu.GPU, name string) { g.Name = text.Printable(name) }),
		constant("nvmlDeviceGetCudaComputeCapability", computeCapability, func(g *gpu.GPU, v gpu.Version) { g.ComputeCapability = v }),
		brand, architecture,
	}
}

// constant returns the constant that a function of NVML has. set stores the result in a GPU.
func constant[T any](symbol string, call func(gonvml.Device) (T, gonvml.Return), set func(*gpu.GPU, T)) constantValue {
	return constantValue{symbol: symbol, read: func(h nvml.Device, g *gpu.GPU) error {
		value, err := nvml.Get(h, symbol, call)
		if err == nil {
			set(g, value)
		}
		return err
	}}
}

func computeCapability(d gonvml.Device) (v gpu.Version, ret gonvml.Return) {
	v.Major, v.Minor, ret = d.GetCudaComputeCapability()
	return v, ret
}

// constants reads the constants of a GPU that are due.
func (v *view) constants(d *device, due func(value string) bool) error {
	var read []string
	for _, c := range constants() {
		if !due(c.symbol) {
			continue
		}
		err := c.read(d.handle, &d.gpu)
		switch {
		case err == nil:
			read = append(read, c.symbol)
		case c.optional && unsupported(err):
		case c.lacks != nil && concernsNode(err):
			return err
		default:
			d.fail(c.symbol, err, c.lacks)
		}
	}
	if id := d.gpu.UUID; id != "" && !id.Valid() {
		d.gpu.Fault, d.gpu.UUID = &gpu.Fault{Op: symUUID, Reason: fmt.Sprintf("%+q is not a UUID", id)}, ""
		read = slices.DeleteFunc(read, func(symbol string) bool { return symbol == symUUID })
	}
	v.memory.storeConstants(d.gpu, read...)
	return nil
}

// The parts of the state of a GPU, which may change.
const (
	partMemory    = "memory"
	partMIG       = "mig"
	partFabric    = "fabric"
	partCondition = "condition"
)

// state reads the parts of the state that are due.
func (v *view) state(d *device, due func(value string) bool) error {
	h, g := d.handle, &d.gpu
	if due(partMemory) {
		// The call is not supported if GPU and CPU share one memory.
		if err := assign(h.MemoryInfo, func(m gonvml.Memory) { g.MemoryBytes = m.Total }); err != nil && !unsupported(err) {
			d.fail(partMemory, err, nil)
		}
	}
	if due(partMIG) {
		switch err := readMIGMode(h, g); {
		case err == nil, unsupported(err):
		case nvml.DriverGone(err):
			return err
		case g.Fault == nil:
			g.Fault = nvml.Fault(err)
		}
	}
	if due(partFabric) {
		fabric, err := v.fabric(g.Index, h)
		if err != nil {
			d.fail(partFabric, err, nil)
		}
		g.Fabric = fabric
	}
	if due(partCondition) {
		c, err := readCondition(h)
		if err != nil {
			c = v.memory.condition(g.Index)
			d.fail(partCondition, err, nil)
		}
		g.Recovery, g.MemoryFaults = c.recovery, c.memory
	}
	if due(partMIG) && g.Fault == nil && g.MIG != nil && g.MIG.Enabled {
		err := v.readMIG(h, g)
		if err != nil && nvml.DriverGone(err) {
			return err
		}
		if err != nil {
			g.Fault = nvml.Fault(err)
		}
	}
	return nil
}

// assign passes the result of a call to f, unless the call failed.
func assign[T any](read func() (T, error), f func(T)) error {
	value, err := read()
	if err == nil {
		f(value)
	}
	return err
}

func readMIGMode(h nvml.Device, g *gpu.GPU) error {
	current, pending, err := h.MIGMode()
	if err == nil {
		g.MIG = &gpu.MIG{Enabled: current == gonvml.DEVICE_MIG_ENABLE, Pending: pending == gonvml.DEVICE_MIG_ENABLE}
	}
	return err
}
