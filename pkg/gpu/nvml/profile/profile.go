// Package profile reads the kinds of GPU instances that a GPU in MIG mode can have, and names them
// as nvidia-smi does. Package reader uses it for the names of MIG devices, and package partition
// for boards.
package profile

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// most is the number of profile numbers that are tried. It is above the number of any known
// profile.
const most = 64

// Profile is a kind of GPU instance.
type Profile struct {
	// Number is the number in NVML_GPU_INSTANCE_PROFILE_….
	Number int
	// Info is NVML's description of the profile.
	Info gonvml.GpuInstanceProfileInfo
	// Attribute is the attribute in the name (see the function Attribute).
	Attribute string
}

// MemoryBytes returns the memory of an instance.
func (p Profile) MemoryBytes() uint64 { return p.Info.MemorySizeMB << 20 }

// Engines returns the engines of the whole instance.
func (p Profile) Engines() gpu.Engines {
	return gpu.Engines{
		Multiprocessors: int(p.Info.MultiprocessorCount), GPUInstanceSlices: int(p.Info.SliceCount), Copy: int(p.Info.CopyEngineCount),
		Decoder: int(p.Info.DecoderCount), Encoder: int(p.Info.EncoderCount), JPEG: int(p.Info.JpegCount), OFA: int(p.Info.OfaCount),
	}
}

// Name returns the name of a MIG device that has a whole instance, on a GPU with total bytes of
// memory.
func (p Profile) Name(total uint64) gpu.Profile {
	n := int(p.Info.SliceCount)
	return gpu.Profile{ComputeSlices: n, GPUSlices: n, GB: gpu.ProfileGB(p.MemoryBytes(), total), Attribute: p.Attribute}
}

// Read returns the kinds of GPU instances that a GPU can have, ordered by number. If it also
// returns an error, the list is not complete. It returns nothing if the library lacks the call.
// NVML answers that the argument is invalid for numbers after the last kind.
func Read(h nvml.Device) ([]Profile, error) {
	var list []Profile
	for n := range most {
		info, err := h.GPUInstanceProfile(n)
		if nvml.Missing(err) {
			return nil, nil
		}
		switch nvml.Code(err) {
		case gonvml.SUCCESS:
			list = append(list, Profile{Number: n, Info: info, Attribute: Attribute(n)})
		case gonvml.ERROR_NOT_SUPPORTED:
		case gonvml.ERROR_INVALID_ARGUMENT:
			return list, nil
		default:
			return list, err
		}
	}
	return list, nil
}

// Attribute returns the attribute in the name of a profile, by its number in NVML, as
// nvidia-smi writes it: "+me", "+me.all", "+gfx", "-me" or "".
func Attribute(number int) string {
	switch number {
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
