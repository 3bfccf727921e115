package boards

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

const (
	mib        = 1 << 20
	vendorPCI  = 0x10de
	doubleMark = "*2"
)

// product builds a product from its row and the other tables.
func (t table) product(row productRow) (Product, error) {
	l, ok := t.Layouts[row.Layout]
	if !ok {
		return Product{}, fmt.Errorf("there is no layout %q", row.Layout)
	}
	e, ok := t.Engines[row.Engines]
	if !ok {
		return Product{}, fmt.Errorf("there are no engines %q", row.Engines)
	}
	p := Product{
		Name: row.Name, MemoryBytes: row.MemoryMiB * mib, NeedsReset: row.NeedsReset, Verified: row.Verified,
		Source: strings.Join([]string{row.Source, l.Source, "engines: " + e.Source}, "; "),
		Board:  mig.Board{MemorySlices: l.MemorySlices, ComputeSlices: l.ComputeSlices},
	}
	for _, id := range row.Devices {
		p.DeviceIDs = append(p.DeviceIDs, id<<16|vendorPCI)
	}
	for _, r := range l.Profiles {
		profile, err := t.profile(row, r, e)
		if err != nil {
			return Product{}, fmt.Errorf("profile %s: %w", r.Key, err)
		}
		p.Board.Profiles = append(p.Board.Profiles, profile)
	}
	return p, nil
}

func (t table) profile(row productRow, r profileRow, e engines) (mig.Profile, error) {
	count, ok := e.Profiles[r.Key]
	memory := row.SlicesMiB[r.Size] * mib
	if !ok || memory == 0 {
		return mig.Profile{}, fmt.Errorf("its engines, or the memory of %d slices, are missing", r.Size)
	}
	g, attribute, ok := strings.Cut(strings.TrimSuffix(r.Key, doubleMark), "g")
	slices, err := strconv.Atoi(g)
	if err != nil || !ok {
		return mig.Profile{}, errors.New("its key does not begin with compute slices")
	}
	p := mig.Profile{
		Name:   gpu.Profile{ComputeSlices: slices, GPUSlices: slices, GB: gpu.ProfileGB(memory, row.MemoryMiB*mib), Attribute: attribute},
		Number: r.Number, ID: r.ID, Max: r.Max, MemoryBytes: memory, Placements: places(r.Starts, r.Size),
		Engines: gpu.Engines{
			Multiprocessors: count[0], GPUInstanceSlices: slices, Copy: count[1],
			Decoder: count[2], Encoder: count[3], JPEG: count[4], OFA: count[5],
		},
	}
	for _, c := range t.Compute[slices] {
		p.Compute = append(p.Compute, mig.ComputeProfile{
			Slices: c.Slices, Number: c.Number, ID: uint32(c.Number), //nolint:gosec // a small number of the table
			Placements: places(c.Starts, c.Slices), Max: len(c.Starts),
		})
	}
	if len(p.Compute) == 0 {
		return mig.Profile{}, fmt.Errorf("there are no compute instances for %d slices", slices)
	}
	return p, nil
}

func places(starts []int, size int) []gpu.Placement {
	var list []gpu.Placement
	for _, s := range starts {
		list = append(list, gpu.Placement{Start: s, Size: size})
	}
	return list
}
