package nvml

import (
	"fmt"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// noMinor is the Minor of a GPU of which it is not known.
const noMinor = -1

// device reads one GPU. What fails becomes its Fault, the first one counts;
// the error is for a driver that has gone.
func (s *session) device(index int) (device, error) {
	d := device{gpu: gpu.GPU{Index: index, Minor: noMinor, NUMANode: -1}}
	handle, ret := s.lib.api.DeviceGetHandleByIndex(index)
	if ret != gonvml.SUCCESS {
		call := newCallError("nvmlDeviceGetHandleByIndex_v2", ret)
		// No permission for one GPU's node leaves the others usable.
		if driverGone(ret) && ret != gonvml.ERROR_NO_PERMISSION {
			return d, call
		}
		d.gpu.Fault = call.fault()
		return d, nil
	}
	d.handle = handle
	for _, step := range s.steps(handle, &d.gpu) {
		if !step.guard {
			continue
		}
		ret := step.read()
		switch {
		case ret == gonvml.SUCCESS, ret == gonvml.ERROR_NOT_SUPPORTED && step.optional:
		case driverGone(ret) && ret != gonvml.ERROR_NO_PERMISSION:
			return d, newCallError(step.op, ret)
		case d.gpu.Fault == nil:
			d.gpu.Fault = newCallError(step.op, ret).fault()
		}
	}
	checkUUID(&d.gpu)
	if d.gpu.Fault == nil && d.gpu.MIG != nil && d.gpu.MIG.Enabled {
		if call := s.readMIG(handle, &d.gpu); call != nil {
			if driverGone(call.ret) && call.ret != gonvml.ERROR_NO_PERMISSION {
				return d, call
			}
			d.gpu.Fault = call.fault()
		}
	}
	return d, nil
}

// step is one call for one GPU.
type step struct {
	op   string
	read func() gonvml.Return
	// guard is false if the library lacks the symbol.
	guard bool
	// optional: a GPU may answer that it does not support it.
	optional bool
}

// steps returns the calls that fill g.
func (s *session) steps(h gonvml.Device, g *gpu.GPU) []step {
	return append(identitySteps(h, g), s.propertySteps(h, g)...)
}

func identitySteps(h gonvml.Device, g *gpu.GPU) []step {
	return []step{
		{op: "nvmlDeviceGetPciInfo_v3", guard: true, read: func() gonvml.Return {
			info, ret := h.GetPciInfo()
			if ret == gonvml.SUCCESS {
				g.PCI = gpu.PCI{BusID: busID(info), DeviceID: info.PciDeviceId, SubsystemID: info.PciSubSystemId}
			}
			return ret
		}},
		{op: "nvmlDeviceGetUUID", guard: true, read: func() gonvml.Return {
			id, ret := h.GetUUID()
			if ret == gonvml.SUCCESS {
				g.UUID = gpu.UUID(id)
			}
			return ret
		}},
		{op: "nvmlDeviceGetMinorNumber", guard: true, read: func() gonvml.Return {
			minor, ret := h.GetMinorNumber()
			if ret == gonvml.SUCCESS {
				g.Minor = minor
			}
			return ret
		}},
		{op: "nvmlDeviceGetName", guard: true, read: func() (ret gonvml.Return) {
			name, ret := h.GetName()
			g.Name = text.Printable(name)
			return ret
		}},
	}
}

func (s *session) propertySteps(h gonvml.Device, g *gpu.GPU) []step {
	return []step{
		{op: "nvmlDeviceGetMemoryInfo", guard: true, optional: true, read: func() gonvml.Return {
			// Not supported where GPU and CPU share one memory.
			info, ret := h.GetMemoryInfo()
			if ret == gonvml.SUCCESS {
				g.MemoryBytes = info.Total
			}
			return ret
		}},
		{op: "nvmlDeviceGetCudaComputeCapability", guard: true, read: func() gonvml.Return {
			major, minor, ret := h.GetCudaComputeCapability()
			if ret == gonvml.SUCCESS {
				g.ComputeCapability = gpu.Version{Major: major, Minor: minor}
			}
			return ret
		}},
		{op: symBrand, guard: s.lib.has[symBrand], optional: true, read: func() gonvml.Return {
			brand, ret := h.GetBrand()
			if ret == gonvml.SUCCESS {
				g.Brand = brandName(brand)
			}
			return ret
		}},
		{op: symArchitecture, guard: s.lib.has[symArchitecture], optional: true, read: func() gonvml.Return {
			arch, ret := h.GetArchitecture()
			if ret == gonvml.SUCCESS {
				g.Architecture = architectureName(arch)
			}
			return ret
		}},
		{op: symMIGMode, guard: s.lib.has[symMIGMode], optional: true, read: func() gonvml.Return {
			current, pending, ret := h.GetMigMode()
			if ret == gonvml.SUCCESS {
				g.MIG = &gpu.MIG{
					Enabled: current == gonvml.DEVICE_MIG_ENABLE,
					Pending: pending == gonvml.DEVICE_MIG_ENABLE,
				}
			}
			return ret
		}},
		{op: symFabricV, guard: true, read: func() gonvml.Return {
			g.Fabric = s.fabric(g.Index, h)
			return gonvml.SUCCESS
		}},
		{op: symFields, guard: true, read: func() gonvml.Return { return s.recovery(h, g) }},
	}
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
