package partition

import (
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/profile"
)

// unlisted reads the GPU instances that NVML does not list because it does not list their profiles.
// The kernel driver has a folder for each instance. NVML is called only if an instance is missing
// in the layout.
func (v *View) unlisted(k *entry) error {
	k.gpu.Unlisted = nil
	proc := v.span.Proc()
	is, err := proc.GPU(k.gpu.PCI.BusID)
	if err != nil || is.Minor == driverproc.NoMinor {
		return nil //nolint:nilerr // a container might not see the folder: then only NVML's list is known
	}
	for _, id := range proc.GPUInstances(is.Minor) {
		if slices.ContainsFunc(k.gpu.Layout, func(i mig.Instance) bool { return i.ID == id }) {
			continue
		}
		h, err := k.handle.GPUInstance(int(id))
		if isDestroyed(err) {
			continue
		}
		if err != nil {
			return err
		}
		info, err := h.Info()
		if isDestroyed(err) {
			continue
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(k.board.profiles, func(p profile.Profile) bool { return p.Info.Id == info.ProfileId }) {
			continue // the instance was created after the list was read
		}
		u := mig.Unlisted{ID: id, ProfileID: info.ProfileId, Placement: gpu.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)}}
		if u.ComputeSlices, err = computeSlices(h); err != nil {
			return err
		}
		k.gpu.Unlisted = append(k.gpu.Unlisted, u)
	}
	return nil
}

// isDestroyed reports whether an error means that the instance was destroyed in the meantime.
func isDestroyed(err error) bool {
	code := nvml.Code(err)
	return code == gonvml.ERROR_NOT_FOUND || code == gonvml.ERROR_INVALID_ARGUMENT
}

// computeSlices returns the number of compute slices of a GPU instance. Its largest compute
// instance has all of them.
func computeSlices(h nvml.GPUInstance) (int, error) {
	most := 0
	for n := range gonvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, err := h.ComputeProfile(n)
		switch nvml.Code(err) {
		case gonvml.SUCCESS:
			most = max(most, int(info.SliceCount))
		case gonvml.ERROR_NOT_SUPPORTED, gonvml.ERROR_INVALID_ARGUMENT:
		default:
			return 0, err
		}
	}
	return most, nil
}
