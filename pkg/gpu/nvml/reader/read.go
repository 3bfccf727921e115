package reader

import (
	"fmt"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/text"
)

// device reads one GPU. The first call that fails becomes its Fault; the error is
// for a driver that has gone, or that is too old.
func (v *view) device(index int) (device, error) {
	d := device{gpu: gpu.GPU{Index: index, Minor: noMinor, NUMANode: -1}}
	handle, err := v.span.Library().Device(index)
	if concernsNode(err) {
		return d, err
	}
	if err != nil {
		d.gpu.Fault = nvml.Fault(err)
		return d, nil
	}
	d.handle = handle
	for _, step := range v.steps(handle, &d.gpu) {
		err := step.read()
		switch {
		case err == nil, step.optional && (nvml.Missing(err) || nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED):
		case concernsNode(err):
			return d, err
		case d.gpu.Fault == nil:
			d.gpu.Fault = nvml.Fault(err)
		}
	}
	checkUUID(&d.gpu)
	if d.gpu.Fault == nil && d.gpu.MIG != nil && d.gpu.MIG.Enabled {
		err := v.readMIG(handle, &d.gpu)
		if nvml.DriverGone(err) {
			return d, err
		}
		if err != nil {
			d.gpu.Fault = nvml.Fault(err)
		}
	}
	return d, nil
}

// concernsNode reports whether the answer to a call that each GPU has to have
// says that no GPU of the node can be used.
func concernsNode(err error) bool { return nvml.DriverGone(err) || nvml.Missing(err) }

// step is one read of one GPU.
type step struct {
	read func() error
	// optional: the library may lack it, or the GPU not support it.
	optional bool
}

// steps returns the reads that fill g.
func (v *view) steps(h nvml.Device, g *gpu.GPU) []step {
	return []step{
		{read: func() error { return readPCI(h, g) }},
		{read: func() error { return set(h.UUID, func(id string) { g.UUID = gpu.UUID(id) }) }},
		{read: func() error { return set(h.MinorNumber, func(minor int) { g.Minor = minor }) }},
		{read: func() error { return set(h.Name, func(name string) { g.Name = text.Printable(name) }) }},
		// Not supported where GPU and CPU share one memory.
		{optional: true, read: func() error { return set(h.MemoryInfo, func(m gonvml.Memory) { g.MemoryBytes = m.Total }) }},
		{read: func() error { return readComputeCapability(h, g) }},
		{optional: true, read: func() error { return set(h.Brand, func(b gonvml.BrandType) { g.Brand = brandName(b) }) }},
		{optional: true, read: func() error {
			return set(h.Architecture, func(a gonvml.DeviceArchitecture) { g.Architecture = architectureName(a) })
		}},
		{optional: true, read: func() error { return readMIGMode(h, g) }},
		{read: func() error { g.Fabric = v.fabric(g.Index, h); return nil }},
		{read: func() error { return v.recovery(h, g) }},
	}
}

// set gives the result of a call to f, if there is one.
func set[T any](read func() (T, error), f func(T)) error {
	value, err := read()
	if err == nil {
		f(value)
	}
	return err
}

func readPCI(h nvml.Device, g *gpu.GPU) error {
	return set(h.PCIInfo, func(info gonvml.PciInfo) {
		g.PCI = gpu.PCI{BusID: busID(info), DeviceID: info.PciDeviceId, SubsystemID: info.PciSubSystemId}
	})
}

func readComputeCapability(h nvml.Device, g *gpu.GPU) error {
	major, minor, err := h.ComputeCapability()
	if err == nil {
		g.ComputeCapability = gpu.Version{Major: major, Minor: minor}
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

// busID returns the place of a GPU as sysfs writes it. NVML has eight digits
// of domain, the kernel as many as it needs, four at least.
func busID(info gonvml.PciInfo) string {
	function := "0"
	text := cString(info.BusId[:])
	if i := len(text) - 1; i > 0 && text[i-1] == '.' && text[i] >= '0' && text[i] <= '7' {
		function = text[i:]
	}
	return fmt.Sprintf("%04x:%02x:%02x.%s", info.Domain, info.Bus, info.Device, function)
}

// cString returns the text before the first NUL.
func cString[T int8 | uint8](c []T) string {
	var b strings.Builder
	for _, v := range c {
		if v == 0 {
			break
		}
		b.WriteByte(byte(v))
	}
	return b.String()
}

func brandName(b gonvml.BrandType) string {
	return map[gonvml.BrandType]string{
		gonvml.BRAND_QUADRO:              "Quadro",
		gonvml.BRAND_TESLA:               "Tesla",
		gonvml.BRAND_NVS:                 "NVS",
		gonvml.BRAND_GRID:                "Grid",
		gonvml.BRAND_GEFORCE:             "GeForce",
		gonvml.BRAND_TITAN:               "Titan",
		gonvml.BRAND_NVIDIA_VAPPS:        "NvidiaVApps",
		gonvml.BRAND_NVIDIA_VPC:          "NvidiaVPC",
		gonvml.BRAND_NVIDIA_VCS:          "NvidiaVCS",
		gonvml.BRAND_NVIDIA_VWS:          "NvidiaVWS",
		gonvml.BRAND_NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
		gonvml.BRAND_QUADRO_RTX:          "QuadroRTX",
		gonvml.BRAND_NVIDIA_RTX:          "NvidiaRTX",
		gonvml.BRAND_NVIDIA:              "Nvidia",
		gonvml.BRAND_GEFORCE_RTX:         "GeForceRTX",
		gonvml.BRAND_TITAN_RTX:           "TitanRTX",
	}[b]
}

func architectureName(a gonvml.DeviceArchitecture) string {
	return map[gonvml.DeviceArchitecture]string{
		gonvml.DEVICE_ARCH_KEPLER:    "Kepler",
		gonvml.DEVICE_ARCH_MAXWELL:   "Maxwell",
		gonvml.DEVICE_ARCH_PASCAL:    "Pascal",
		gonvml.DEVICE_ARCH_VOLTA:     "Volta",
		gonvml.DEVICE_ARCH_TURING:    "Turing",
		gonvml.DEVICE_ARCH_AMPERE:    "Ampere",
		gonvml.DEVICE_ARCH_ADA:       "Ada Lovelace",
		gonvml.DEVICE_ARCH_HOPPER:    "Hopper",
		gonvml.DEVICE_ARCH_BLACKWELL: "Blackwell",
		gonvml.DEVICE_ARCH_RUBIN:     "Rubin",
	}[a]
}
