package apply

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// fits returns why a board cannot have a layout, or nil. A checkpoint may be of another
// board.
func fits(b mig.Board, layout mig.Layout) error {
	for at, i := range layout {
		p, ok := b.Profile(i.Profile)
		if !ok || !slices.Contains(p.Placements, i.Placement) {
			return fmt.Errorf("the GPU cannot have %s at %d:%d", i.Profile, i.Placement.Start, i.Placement.Size)
		}
		count := 0
		for other, o := range layout {
			if other != at && overlap(i.Placement, o.Placement) {
				return fmt.Errorf("%s at %d:%d and %s at %d:%d overlap", i.Profile, i.Placement.Start, i.Placement.Size, o.Profile, o.Placement.Start, o.Placement.Size)
			}
			if o.Profile == i.Profile {
				count++
			}
		}
		if count > p.Max {
			return fmt.Errorf("the GPU can have %d of %s, not %d", p.Max, i.Profile, count)
		}
		if err := fitsIn(p, i); err != nil {
			return err
		}
	}
	return nil
}

// fitsIn is fits for the compute instances of a GPU instance.
func fitsIn(p mig.Profile, i mig.Instance) error {
	for at, c := range i.Compute {
		kind, ok := p.Of(c.Slices)
		if !ok || !slices.Contains(kind.Placements, c.Placement) {
			return fmt.Errorf("%s cannot have a compute instance of %d slices at %d:%d", i.Profile, c.Slices, c.Placement.Start, c.Placement.Size)
		}
		if slices.ContainsFunc(i.Compute[at+1:], func(o mig.Compute) bool { return overlap(c.Placement, o.Placement) }) {
			return fmt.Errorf("compute instances of %s overlap", i.Profile)
		}
	}
	return nil
}

func overlap(a, b gpu.Placement) bool {
	return a.Start < b.Start+b.Size && b.Start < a.Start+a.Size
}
