package migconfig

import (
	"errors"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// The names of configs that Generate can return. The other names are all-<profile>, with "." instead
// of "+". AllBalanced is returned only for boards with a balanced mix.
const (
	AllDisabled = "all-disabled"
	AllEnabled  = "all-enabled"
	AllBalanced = "all-balanced"
)

// ErrNoProfiles is returned if no GPU of a node reports its profiles. Drivers before 545 report them
// only if the MIG mode is on.
var ErrNoProfiles = errors.New("no GPU of the node reports MIG profiles")

// Generate returns the configs that mig-parted generates for a node: MIG off, MIG on without devices,
// the largest number of devices of each profile, and a balanced mix. If no GPU reports profiles, it
// returns ErrNoProfiles and the configs that need no profiles.
func Generate(gpus []mig.GPU) (Config, error) {
	var capable []mig.GPU
	for _, g := range gpus {
		if g.Capable && g.Fault == nil {
			capable = append(capable, g)
		}
	}
	c := Config{Entries: map[string][]Item{
		AllDisabled: {{All: true}},
		AllEnabled:  {{All: true, Desired: mig.Desired{Enabled: true}}},
	}}
	if !slices.ContainsFunc(capable, func(g mig.GPU) bool { return len(g.Board.Profiles) > 0 }) {
		return c, ErrNoProfiles
	}
	for _, same := range groupByBoard(capable) {
		where := boardTarget(same, capable)
		board := same[0].Board
		add := func(name string, devices map[gpu.Profile]int) {
			item := where
			item.Desired = mig.Desired{Enabled: true, Devices: devices}
			c.Entries[name] = append(c.Entries[name], item)
		}
		for _, p := range board.Profiles {
			add("all-"+strings.ReplaceAll(p.Name.String(), "+", "."), map[gpu.Profile]int{p.Name: p.Max})
		}
		if mix := balanced(board); mix != nil {
			add(AllBalanced, mix)
		}
	}
	return c, nil
}

// balanced returns the devices of all-balanced, or nil for a board without a balanced mix.
func balanced(b mig.Board) map[gpu.Profile]int {
	var counts map[int]int
	switch b.ComputeSlices {
	case 7:
		counts = map[int]int{1: 2, 2: 1, 3: 1}
	case 4:
		counts = map[int]int{1: 2, 2: 1}
	}
	var out map[gpu.Profile]int
	for slices, n := range counts {
		p, ok := baseProfile(b, slices)
		if !ok {
			return nil
		}
		if out == nil {
			out = map[gpu.Profile]int{}
		}
		out[p] = n
	}
	return out
}

// baseProfile returns the profile with this number of slices and without an attribute. If several profiles
// match, it returns the profile with the largest number of instances.
func baseProfile(b mig.Board, slices int) (gpu.Profile, bool) {
	var found gpu.Profile
	best := 0
	for _, p := range b.Profiles {
		if p.Name.GPUSlices == slices && p.Name.Attribute == "" && p.Max > best {
			found, best = p.Name, p.Max
		}
	}
	return found, best > 0
}
