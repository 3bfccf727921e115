package reader

import (
	"sync"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/profile"
)

// product identifies the products whose profiles can differ.
type product struct {
	pci    gpu.PCI
	memory uint64
}

// catalogue has the profiles of each product of the node.
type catalogue struct {
	mu       sync.Mutex
	profiles map[product][]profile.Profile
}

// profiles returns the kinds of GPU instances that a GPU can have. It reads them once for all GPUs
// of the same product, because NVML documents that they are immutable. If it also returns an error,
// the list is not complete.
func (v *view) profiles(h nvml.Device, g *gpu.GPU) ([]profile.Profile, error) {
	key := product{pci: gpu.PCI{DeviceID: g.PCI.DeviceID, SubsystemID: g.PCI.SubsystemID}, memory: g.MemoryBytes}
	v.catalogue.mu.Lock()
	defer v.catalogue.mu.Unlock()
	if list, ok := v.catalogue.profiles[key]; ok {
		return list, nil
	}
	list, err := profile.Read(h)
	if err == nil {
		if v.catalogue.profiles == nil {
			v.catalogue.profiles = map[product][]profile.Profile{}
		}
		v.catalogue.profiles[key] = list
	}
	return list, err
}

// attribute returns the attribute of a GPU instance. If NVML does not report the profile of the
// instance, the attribute follows from its engines. If several kinds have these engines, it is the
// attribute of the plain kind.
func attribute(profiles []profile.Profile, in instance, has gpu.Engines) string {
	text, found := "", false
	for _, p := range profiles {
		if in.known && p.Info.Id == in.profile {
			return p.Attribute
		}
		e := p.Engines()
		alike := e.GPUInstanceSlices == has.GPUInstanceSlices && e.Decoder == has.Decoder &&
			e.Encoder == has.Encoder && e.JPEG == has.JPEG && e.OFA == has.OFA
		if !alike || in.known {
			continue
		}
		if found && p.Attribute != text {
			return ""
		}
		text, found = p.Attribute, true
	}
	return text
}
