package apply

import (
	"slices"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// sharesEngines reports whether only the limits of media engines exclude the devices, and the GPU
// shares its engines. NVML's profiles do not show whether instances can share an engine. The
// existing instances show it, and the instances that still fit according to the driver.
func (o *observer) sharesEngines(g mig.GPU, want map[gpu.Profile]int) bool {
	free := g
	free.Board.SharedEngines = true
	if _, err := fit(free, want, nil); err != nil || !g.Enabled {
		return false
	}
	if g.Board.SharedEngines || exceedsEngines(g, nil) {
		return true
	}
	if o.view == nil {
		return false
	}
	capacity, err := o.view.Capacity(g.UUID)
	return err == nil && exceedsEngines(g, capacity)
}

// exceedsEngines reports whether the instances of a GPU have more media engines than the GPU. It
// also returns true if this would be the case with one more instance of a profile that still fits.
func exceedsEngines(g mig.GPU, capacity map[gpu.Profile]int) bool {
	var has []gpu.Profile
	for _, i := range g.Layout {
		has = append(has, i.Profile)
	}
	if plan.ExceedsEngines(g.Board, has) {
		return true
	}
	for p, n := range capacity {
		if n > 0 && plan.ExceedsEngines(g.Board, append(slices.Clone(has), p)) {
			return true
		}
	}
	return false
}
