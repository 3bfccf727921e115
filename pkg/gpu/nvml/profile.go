package nvml

import (
	"sync"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// maxProfiles bounds the search for the last kind of GPU instance.
const maxProfiles = 64

// profile is a kind of GPU instance.
type profile struct {
	// id is nvmlGpuInstanceProfileInfo_t.id.
	id        uint32
	attribute string
	// engines are those of the whole instance.
	engines gpu.Engines
}

// product tells apart what can differ in its profiles.
type product struct {
	pci    gpu.PCI
	memory uint64
}

// catalogue has the profiles of each product of the node.
type catalogue struct {
	mu       sync.Mutex
	profiles map[product][]profile
}

// profiles returns the kinds of GPU instances that a GPU can have. They are read
// once for all GPUs that are alike: NVML says that they are immutable.
func (s *session) profiles(h gonvml.Device, g *gpu.GPU) []profile {
	if !s.lib.has[symGIProfile] {
		return nil
	}
	key := product{pci: gpu.PCI{DeviceID: g.PCI.DeviceID, SubsystemID: g.PCI.SubsystemID}, memory: g.MemoryBytes}
	s.catalogue.mu.Lock()
	defer s.catalogue.mu.Unlock()
	if list, ok := s.catalogue.profiles[key]; ok {
		return list
	}
	list, complete := readProfiles(h)
	if complete {
		if s.catalogue.profiles == nil {
			s.catalogue.profiles = map[product][]profile{}
		}
		s.catalogue.profiles[key] = list
	}
	return list
}

// readProfiles asks for one kind after the other. Behind the last one NVML
// answers that the argument is invalid.
func readProfiles(h gonvml.Device) (list []profile, complete bool) {
	for n := range maxProfiles {
		info, ret := h.GetGpuInstanceProfileInfo(n)
		switch ret {
		case gonvml.SUCCESS:
			list = append(list, profile{id: info.Id, attribute: attributeOf(n), engines: gpu.Engines{
				GPUInstanceSlices: int(info.SliceCount), Decoder: int(info.DecoderCount), Encoder: int(info.EncoderCount),
				JPEG: int(info.JpegCount), OFA: int(info.OfaCount),
			}})
		case gonvml.ERROR_NOT_SUPPORTED:
		case gonvml.ERROR_INVALID_ARGUMENT:
			return list, true
		default:
			return list, false
		}
	}
	return list, true
}

// attributeOf returns the attribute in the text of a profile, by its number in
// NVML, as nvidia-smi writes it.
func attributeOf(profile int) string {
	switch profile {
	case gonvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1, gonvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1:
		return "+me"
	case gonvml.GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME, gonvml.GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME:
		return "+me.all"
	case gonvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX, gonvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX,
		gonvml.GPU_INSTANCE_PROFILE_3_SLICE_GFX, gonvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX:
		return "+gfx"
	case gonvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME, gonvml.GPU_INSTANCE_PROFILE_2_SLICE_NO_ME:
		return "-me"
	default:
		return ""
	}
}

// attribute returns that of a GPU instance. A process that is not told the
// instance's profile knows it by its engines, unless those of several kinds are
// alike: then it is taken for the plain one.
func attribute(profiles []profile, in instance, has gpu.Engines) string {
	text, found := "", false
	for _, p := range profiles {
		if in.known && p.id == in.profile {
			return p.attribute
		}
		alike := p.engines.GPUInstanceSlices == has.GPUInstanceSlices && p.engines.Decoder == has.Decoder &&
			p.engines.Encoder == has.Encoder && p.engines.JPEG == has.JPEG && p.engines.OFA == has.OFA
		if !alike || in.known {
			continue
		}
		if found && p.attribute != text {
			return ""
		}
		text, found = p.attribute, true
	}
	return text
}
