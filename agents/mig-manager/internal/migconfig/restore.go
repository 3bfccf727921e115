package migconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// States returns the states in the checkpoint. The result does not include GPUs that are not in the
// checkpoint, and GPUs without a MIG mode. If a GPU of the checkpoint is missing or cannot be read,
// or the checkpoint does not fit the GPU, States returns an error.
func (c Checkpoint) States(gpus []mig.GPU) (map[gpu.UUID]mig.State, error) {
	out := map[gpu.UUID]mig.State{}
	var errs []error
	for _, d := range c.MigState.Devices {
		i := slices.IndexFunc(gpus, func(g mig.GPU) bool { return g.UUID == d.UUID })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s: %s: the node has no GPU %s: remove it from the checkpoint", c.file, d.key, d.UUID))
			continue
		}
		s, err := d.state(gpus[i])
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %s: GPU %d: %w", c.file, d.key, gpus[i].Index, err))
		case gpus[i].Capable:
			out[d.UUID] = s
		}
	}
	return out, errors.Join(errs...)
}

func (d checkpointDevice) state(g mig.GPU) (mig.State, error) {
	if g.Fault != nil {
		return mig.State{}, g.Fault
	}
	s := mig.State{Enabled: d.MigMode == 1, Pending: d.MigMode == 1, Layout: mig.Layout{}}
	if s.Enabled && !g.Capable {
		return mig.State{}, errors.New("it has no MIG mode")
	}
	for _, saved := range d.GpuInstances {
		i, err := saved.instance(g.Board)
		if err != nil {
			return mig.State{}, err
		}
		s.Layout = append(s.Layout, i)
	}
	s.Layout.Sort()
	return s, g.Board.Fits(s.Layout)
}

func (i checkpointInstance) instance(b mig.Board) (mig.Instance, error) {
	at := slices.IndexFunc(b.Profiles, func(p mig.Profile) bool { return p.Number == i.ProfileID })
	if at < 0 {
		return mig.Instance{}, fmt.Errorf("it has no GPU instance profile %d", i.ProfileID)
	}
	p := b.Profiles[at]
	out := mig.Instance{Profile: p.Name, Placement: gpu.Placement(i.Placement), Compute: []mig.Compute{}}
	for _, saved := range i.ComputeInstances {
		at := slices.IndexFunc(p.Compute, func(c mig.ComputeProfile) bool { return c.Number == saved.ProfileID })
		if at < 0 {
			return mig.Instance{}, fmt.Errorf("a GPU instance %s has no compute instance profile %d", p.Name, saved.ProfileID)
		}
		c := mig.Compute{Slices: p.Compute[at].Slices}
		if saved.Placement != nil {
			c.Placement = gpu.Placement(*saved.Placement)
		}
		out.Compute = append(out.Compute, c)
	}
	return out, placeCompute(p, out.Compute)
}

// placeCompute sets missing placements of compute instances. It places the largest instances first,
// at the first free place.
func placeCompute(p mig.Profile, all []mig.Compute) error {
	slices.SortStableFunc(all, func(a, b mig.Compute) int {
		return cmp.Or(cmp.Compare(unplaced(a), unplaced(b)), cmp.Compare(b.Slices, a.Slices))
	})
	for n := range all {
		c := &all[n]
		kind, _ := p.Of(c.Slices)
		free := func(at gpu.Placement) bool {
			return !slices.ContainsFunc(all[:n], func(o mig.Compute) bool { return o.Placement.Overlaps(at) })
		}
		want := c.Placement
		i := slices.IndexFunc(kind.Placements, func(at gpu.Placement) bool {
			return free(at) && (want.Size == 0 || at == want)
		})
		if i < 0 {
			return fmt.Errorf("a GPU instance %s cannot have all of its compute instances: %s does not fit", p.Name, mig.Instance{Profile: p.Name}.Device(*c))
		}
		c.Placement = kind.Placements[i]
	}
	return nil
}

// unplaced returns 1 for a compute instance without a placement, and otherwise 0.
func unplaced(c mig.Compute) int {
	if c.Placement.Size == 0 {
		return 1
	}
	return 0
}
