package reader

import (
	"sync"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// maxProfiles bounds the search for the last kind of GPU instance.
const maxProfiles = 64

// profile is a kind of GPU instance.
type profile struct {
	// id is nvmlGpuInstanceProfileInfo_t.id.
	id          uint32
	attribute   string
	memoryBytes uint64
	// engines are those of the whole instance.
	engines gpu.Engines
}

// text returns the profile of a whole GPU instance on a GPU with so much memory.
func (p profile) text(total uint64) gpu.Profile {
	n := p.engines.GPUInstanceSlices
	return gpu.Profile{ComputeSlices: n, GPUSlices: n, GB: gpu.ProfileGB(p.memoryBytes, total), Attribute: p.attribute}
}

// product identifies the products whose profiles can differ.
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
// once for all GPUs that are alike: NVML documents that they are immutable.
// With an error, the list is not complete.
func (v *view) profiles(h nvml.Device, g *gpu.GPU) ([]profile, error) {
	key := product{pci: gpu.PCI{DeviceID: g.PCI.DeviceID, SubsystemID: g.PCI.SubsystemID}, memory: g.MemoryBytes}
	v.catalogue.mu.Lock()
	defer v.catalogue.mu.Unlock()
	if list, ok := v.catalogue.profiles[key]; ok {
		return list, nil
	}
	list, err := readProfiles(h)
	if err == nil {
		if v.catalogue.profiles == nil {
			v.catalogue.profiles = map[product][]profile{}
		}
		v.catalogue.profiles[key] = list
	}
	return list, err
}

// readProfiles asks for one kind after the other. Behind the last one NVML
// answers that the argument is invalid.
func readProfiles(h nvml.Device) ([]profile, error) {
	var list []profile
	for n := range maxProfiles {
		info, err := h.GPUInstanceProfile(n)
		if nvml.Missing(err) {
			return nil, nil
		}
		switch nvml.Code(err) {
		case gonvml.SUCCESS:
			list = append(list, profile{
				id: info.Id, attribute: attributeOf(n), memoryBytes: info.MemorySizeMB << 20,
				engines: gpu.Engines{
					GPUInstanceSlices: int(info.SliceCount), Decoder: int(info.DecoderCount), Encoder: int(info.EncoderCount),
					JPEG: int(info.JpegCount), OFA: int(info.OfaCount),
				},
			})
		case gonvml.ERROR_NOT_SUPPORTED:
		case gonvml.ERROR_INVALID_ARGUMENT:
			return list, nil
		default:
			return list, err
		}
	}
	return list, nil
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

// attribute returns the attribute of a GPU instance. If NVML does not say which
// profile the instance has, its engines say it, unless several kinds have the same
// ones: then it is taken for the plain one.
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
