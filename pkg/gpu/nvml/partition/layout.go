package partition

import (
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
)

// instance is an existing GPU instance.
type instance struct {
	mig.Instance
	handle nvml.GPUInstance
	// kinds are the possible kinds of its compute instances.
	kinds []computeProfile
	// compute has the handles of Compute.
	compute []nvml.ComputeInstance
}

// layout reads the GPU instances and the compute instances of a GPU. NVML lists GPU instances by
// profile. The search ends when the instances have all compute slices.
func (v *View) layout(k *entry) error {
	var layout mig.Layout
	left := k.board.mig.ComputeSlices
	for at, p := range k.board.profiles {
		if left <= 0 {
			break
		}
		handles, err := k.handle.GPUInstances(p.Info)
		if err != nil {
			return err
		}
		for _, h := range handles {
			in, err := v.instance(k, at, h)
			if err != nil {
				return err
			}
			k.instances = append(k.instances, in)
			is := in.Instance
			is.Compute = slices.Clone(is.Compute) // a later step changes in.Compute
			layout = append(layout, is)
			left -= int(p.Info.SliceCount)
		}
	}
	layout.Sort()
	k.gpu.Layout = layout
	return v.unlisted(k)
}

// instance reads a GPU instance. The parameter at is the index of its profile on the board.
func (v *View) instance(k *entry, at int, h nvml.GPUInstance) (*instance, error) {
	info, err := h.Info()
	if err != nil {
		return nil, err
	}
	in := &instance{handle: h, Instance: mig.Instance{
		ID: info.Id, Profile: k.board.profiles[at].Name(k.gpu.MemoryBytes),
		Placement: gpu.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)},
	}}
	if in.kinds, err = v.reader.readComputeProfiles(k.board, at, h); err != nil {
		return nil, err
	}
	left := int(k.board.profiles[at].Info.SliceCount)
	for _, kind := range slices.Backward(in.kinds) { // the largest kind first, because it can take all slices
		if left <= 0 {
			break
		}
		handles, err := h.ComputeInstances(kind.info)
		if err != nil {
			return nil, err
		}
		if err := in.add(kind, handles); err != nil {
			return nil, err
		}
		left -= len(handles) * int(kind.info.SliceCount)
	}
	return in, nil
}

// add reads compute instances of a kind.
func (in *instance) add(kind computeProfile, handles []nvml.ComputeInstance) error {
	size := int(kind.info.SliceCount)
	for i, h := range handles {
		info, err := h.Info()
		if err != nil {
			return err
		}
		c := mig.Compute{ID: info.Id, Slices: size, Placement: gpu.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)}}
		if c.Placement.Size == 0 { // an older library
			c.Placement = gpu.Placement{Start: i * size, Size: size}
		}
		in.Compute = append(in.Compute, c)
		in.compute = append(in.compute, h)
	}
	return nil
}

// Capacity returns, for each profile of its board, how many more GPU instances the GPU can have
// now, according to NVML.
func (v *View) Capacity(id gpu.UUID) (map[gpu.Profile]int, error) {
	k, err := v.state(id)
	if err != nil || k.board == nil {
		return nil, err
	}
	out := map[gpu.Profile]int{}
	for _, p := range k.board.profiles {
		n, err := k.handle.RemainingCapacity(p.Info)
		if err != nil {
			return nil, err
		}
		out[p.Name(k.gpu.MemoryBytes)] = n
	}
	return out, nil
}

// state returns the entry of a GPU, and reads the state of the GPU if it was not read yet.
func (v *View) state(id gpu.UUID) (*entry, error) {
	k, err := v.entry(id)
	if err != nil || k.read {
		return k, err
	}
	g, err := v.readState(k)
	if err == nil && g.Fault != nil {
		err = fmt.Errorf("GPU %s: %w", id, g.Fault)
	}
	return k, err
}

// Do takes one step. The error wraps the error of NVML: ERROR_IN_USE if a process uses the instance
// (see InUse), ERROR_INSUFFICIENT_RESOURCES if there is no room for it.
func (v *View) Do(id gpu.UUID, s mig.Step) error {
	k, err := v.state(id)
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	switch s.Op {
	case mig.CreateInstance:
		err = v.createInstance(k, s)
	case mig.DestroyInstance:
		err = k.destroyInstance(s)
	case mig.CreateCompute:
		err = k.createCompute(s)
	case mig.DestroyCompute:
		err = k.destroyCompute(s)
	default:
		err = fmt.Errorf("%q is not an operation", s.Op)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

func (v *View) createInstance(k *entry, s mig.Step) error {
	at := slices.IndexFunc(k.gpu.Board.Profiles, func(p mig.Profile) bool { return p.Name == s.Profile })
	if at < 0 {
		return fmt.Errorf("the GPU has no such profile")
	}
	place := gonvml.GpuInstancePlacement{Start: uint32(s.Placement.Start), Size: uint32(s.Placement.Size)}
	h, err := k.handle.CreateGPUInstance(k.board.profiles[at].Info, place)
	if err != nil {
		return err
	}
	kinds, err := v.reader.readComputeProfiles(k.board, at, h)
	if err != nil {
		return err
	}
	k.instances = append(k.instances, &instance{
		Instance: mig.Instance{Profile: s.Profile, Placement: s.Placement}, handle: h, kinds: kinds,
	})
	return nil
}

func (k *entry) destroyInstance(s mig.Step) error {
	in, err := k.find(s)
	if err != nil {
		return err
	}
	if err := in.handle.Destroy(); err != nil {
		return err
	}
	k.instances = slices.DeleteFunc(k.instances, func(i *instance) bool { return i == in })
	return nil
}

func (k *entry) createCompute(s mig.Step) error {
	in, err := k.find(s)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(in.kinds, func(c computeProfile) bool { return int(c.info.SliceCount) == s.Compute.Slices })
	if at < 0 {
		return fmt.Errorf("the GPU instance cannot have compute instances of %d slices", s.Compute.Slices)
	}
	place := gonvml.ComputeInstancePlacement{Start: uint32(s.Compute.Placement.Start), Size: uint32(s.Compute.Placement.Size)}
	h, err := in.handle.CreateComputeInstanceAt(in.kinds[at].info, place)
	if nvml.Missing(err) || nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED {
		// The driver chooses the placement. The caller reads the layout back and compares it.
		h, err = in.handle.CreateComputeInstance(in.kinds[at].info)
	}
	if err != nil {
		return err
	}
	in.Compute, in.compute = append(in.Compute, s.Compute), append(in.compute, h)
	return nil
}

func (k *entry) destroyCompute(s mig.Step) error {
	in, err := k.find(s)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(in.Compute, s.Compute.Equal)
	if at < 0 {
		return errGone
	}
	if err := in.compute[at].Destroy(); err != nil {
		return err
	}
	in.Compute, in.compute = slices.Delete(in.Compute, at, at+1), slices.Delete(in.compute, at, at+1)
	return nil
}

var errGone = fmt.Errorf("there is no such instance")

// find returns the GPU instance of a step.
func (k *entry) find(s mig.Step) (*instance, error) {
	want := mig.Instance{Profile: s.Profile, Placement: s.Placement}
	at := slices.IndexFunc(k.instances, func(in *instance) bool { return in.Same(want) })
	if at < 0 {
		return nil, errGone
	}
	return k.instances[at], nil
}
