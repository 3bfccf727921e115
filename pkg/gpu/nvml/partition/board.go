package partition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/profile"
)

// product identifies the products whose boards can differ.
type product struct {
	pci    gpu.PCI
	memory uint64
}

// board holds NVML's description of a product.
type board struct {
	// profiles are in the order of the profiles of mig.
	profiles   []profile.Profile
	mig        mig.Board
	needsReset bool
	// compute has the kinds of compute instances of each GPU instance profile, by the number of the
	// profile and ordered by slices. NVML reports them only for GPU instances that exist.
	compute map[int][]computeProfile
}

// computeProfile is a kind of compute instance of a GPU instance.
type computeProfile struct {
	number int
	info   gonvml.ComputeInstanceProfileInfo
}

// boardOf returns the possible divisions of a GPU, and whether a change of its mode needs a reset.
func (r *Reader) boardOf(b *board) (mig.Board, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := b.mig
	out.Profiles = slices.Clone(out.Profiles)
	return out, b.needsReset
}

// board returns the board of a GPU. Drivers of the 535 branch report no profiles while the mode is
// off. The board is then empty, and is read again the next time.
func (v *View) board(k *entry) (*board, error) {
	if v.driver == "" {
		var err error
		if v.driver, err = v.span.Library().DriverVersion(); err != nil {
			return nil, err
		}
	}
	r, g := v.reader, k.gpu
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.driver != v.driver {
		r.driver, r.boards = v.driver, map[product]*board{}
	}
	key := product{pci: gpu.PCI{DeviceID: g.PCI.DeviceID, SubsystemID: g.PCI.SubsystemID}, memory: g.MemoryBytes}
	if b := r.boards[key]; b != nil {
		return b, nil
	}
	b, err := readBoard(k.handle, g.MemoryBytes)
	if err != nil {
		return nil, err
	}
	if g.PCI.DeviceID == a30 {
		countInstances(b.mig.Profiles)
	}
	if len(b.profiles) > 0 {
		r.boards[key] = b
	}
	return b, nil
}

// a30 is the PCI device of an A30. NVML reports wrong numbers of instances for it.
const a30 = 0x20b710de

// countInstances sets the number of instances of each profile to the number that its placements
// allow. For profiles with media engines it is 1, because these engines cannot be divided.
func countInstances(profiles []mig.Profile) {
	for i := range profiles {
		p := &profiles[i]
		if strings.HasPrefix(p.Name.Attribute, "+me") {
			p.Max = 1
			continue
		}
		end := 0
		p.Max = 0
		for _, place := range p.Placements {
			if place.Start >= end {
				p.Max, end = p.Max+1, place.Start+place.Size
			}
		}
	}
}

func readBoard(h nvml.Device, memory uint64) (*board, error) {
	list, err := profile.Read(h)
	if err != nil {
		return nil, err
	}
	b := &board{compute: map[int][]computeProfile{}}
	if b.needsReset, err = needsReset(h); err != nil {
		return nil, err
	}
	for _, p := range list {
		places, err := h.PossiblePlacements(p.Info)
		if nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED {
			return &board{needsReset: b.needsReset, compute: b.compute}, nil
		}
		if err != nil {
			return nil, err
		}
		b.add(p, places, memory)
	}
	return b, nil
}

// add adds a profile.
func (b *board) add(p profile.Profile, places []gonvml.GpuInstancePlacement, memory uint64) {
	out := mig.Profile{
		Name: p.Name(memory), Number: p.Number, ID: p.Info.Id, Max: min(int(p.Info.InstanceCount), len(places)),
		MemoryBytes: p.MemoryBytes(), Engines: p.Engines(), Compute: defaultCompute(int(p.Info.SliceCount)),
	}
	for _, at := range places {
		out.Placements = append(out.Placements, gpu.Placement{Start: int(at.Start), Size: int(at.Size)})
		b.mig.MemorySlices = max(b.mig.MemorySlices, int(at.Start+at.Size))
	}
	slices.SortFunc(out.Placements, func(a, b gpu.Placement) int { return a.Start - b.Start })
	b.mig.ComputeSlices = max(b.mig.ComputeSlices, int(p.Info.SliceCount))
	b.profiles = append(b.profiles, p)
	b.mig.Profiles = append(b.mig.Profiles, out)
}

// defaultCompute returns the kinds of compute instances that a GPU instance with whole slices has
// on all known boards: the whole instance, and the sizes up to half of it, rounded up. The answer of
// NVML replaces them after an instance exists.
func defaultCompute(whole int) []mig.ComputeProfile {
	numbers := map[int]int{
		1: gonvml.COMPUTE_INSTANCE_PROFILE_1_SLICE, 2: gonvml.COMPUTE_INSTANCE_PROFILE_2_SLICE,
		3: gonvml.COMPUTE_INSTANCE_PROFILE_3_SLICE, 4: gonvml.COMPUTE_INSTANCE_PROFILE_4_SLICE,
		6: gonvml.COMPUTE_INSTANCE_PROFILE_6_SLICE, 7: gonvml.COMPUTE_INSTANCE_PROFILE_7_SLICE,
		8: gonvml.COMPUTE_INSTANCE_PROFILE_8_SLICE,
	}
	var out []mig.ComputeProfile
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		if n == whole || n < whole && 2*n <= whole+1 {
			out = append(out, mig.ComputeProfile{
				Slices: n, Number: numbers[n], ID: uint32(numbers[n]), Max: whole / n, Placements: adjacentPlacements(whole/n, n),
			})
		}
	}
	return out
}

// adjacentPlacements returns the placements of count compute instances of one size.
func adjacentPlacements(count, size int) []gpu.Placement {
	out := make([]gpu.Placement, 0, count)
	for i := range count {
		out = append(out, gpu.Placement{Start: i * size, Size: size})
	}
	return out
}

// readComputeProfiles reads the kinds of compute instances of a profile from an existing instance
// of it.
func (r *Reader) readComputeProfiles(b *board, at int, h nvml.GPUInstance) ([]computeProfile, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := b.profiles[at].Number
	if list, ok := b.compute[number]; ok {
		return list, nil
	}
	var list []computeProfile
	var out []mig.ComputeProfile
	for n := range gonvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, err := h.ComputeProfile(n)
		switch nvml.Code(err) {
		case gonvml.SUCCESS:
		case gonvml.ERROR_NOT_SUPPORTED, gonvml.ERROR_INVALID_ARGUMENT:
			continue
		default:
			return nil, err
		}
		list = append(list, computeProfile{number: n, info: info})
		// Several kinds may have the same number of slices. The first is the plain one.
		if slices.ContainsFunc(out, func(c mig.ComputeProfile) bool { return c.Slices == int(info.SliceCount) }) {
			continue
		}
		c := mig.ComputeProfile{Slices: int(info.SliceCount), Number: n, ID: info.Id, Max: int(info.InstanceCount)}
		if c.Placements, err = computePlacements(h, info); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("NVML reports no compute instance profile of GPU instance profile %d", number)
	}
	slices.SortFunc(out, func(a, b mig.ComputeProfile) int { return a.Slices - b.Slices })
	slices.SortStableFunc(list, func(a, b computeProfile) int { return int(a.info.SliceCount) - int(b.info.SliceCount) })
	b.mig.Profiles = slices.Clone(b.mig.Profiles)
	b.mig.Profiles[at].Compute = out
	b.compute[number] = list
	return list, nil
}

// computePlacements returns the possible placements of compute instances of a kind. Older libraries
// do not report them.
func computePlacements(h nvml.GPUInstance, info gonvml.ComputeInstanceProfileInfo) ([]gpu.Placement, error) {
	places, err := h.PossiblePlacements(info)
	if nvml.Missing(err) || nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED {
		return adjacentPlacements(int(info.InstanceCount), int(info.SliceCount)), nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]gpu.Placement, 0, len(places))
	for _, at := range places {
		out = append(out, gpu.Placement{Start: int(at.Start), Size: int(at.Size)})
	}
	slices.SortFunc(out, func(a, b gpu.Placement) int { return a.Start - b.Start })
	return out, nil
}

// needsReset reports whether a change of the mode needs a reset of the GPU. If the driver does not
// have the field value, the architecture decides: GPUs before Hopper need a reset.
func needsReset(h nvml.Device) (bool, error) {
	values := []gonvml.FieldValue{{FieldId: gonvml.FI_DEV_IS_RESETLESS_MIG_SUPPORTED}}
	err := h.FieldValues(values)
	if err == nil && gonvml.Return(values[0].NvmlReturn) == gonvml.SUCCESS {
		return values[0].Value == [8]uint8{}, nil
	}
	architecture, err := h.Architecture()
	if code := nvml.Code(err); code == gonvml.ERROR_NOT_SUPPORTED || nvml.Missing(err) {
		return true, nil
	}
	return architecture < gonvml.DEVICE_ARCH_HOPPER, err
}
