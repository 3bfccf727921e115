package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Infeasible is returned if no layout of the board has all desired MIG devices.
type Infeasible struct {
	Want map[gpu.Profile]int
	// Causes has at least one element.
	Causes []Cause
	// Excess is the smallest part of Want to remove, so that the rest fits.
	Excess map[gpu.Profile]int
	// Nearest has similar feasible devices: first the largest parts of Want, then the same number of
	// devices with other profiles. It may be empty.
	Nearest []map[gpu.Profile]int
}

// Limit is a limit of a board.
type Limit string

// The limits of a board.
const (
	UnknownProfile Limit = "unknown profile"
	Count          Limit = "number of instances"
	ComputeSlices  Limit = "compute slices"
	MemorySlices   Limit = "memory slices"
	MediaEngines   Limit = "media engines"
	// Placements is the limit if no other is exceeded. The instances fit by size, but overlap at all
	// possible placements.
	Placements Limit = "placements"
)

// Cause is a limit that the desired devices exceed.
type Cause struct {
	Limit Limit
	// Profiles are the profiles that use the limited resource, ordered by name.
	Profiles []gpu.Profile
	// Need is the needed amount, at least, and Have the amount of the GPU. Both are 0 for
	// UnknownProfile and Placements.
	Need, Have int
	// Engine is the name of the media engines.
	Engine string
	// Near has the profiles of the board that are most similar to an unknown profile.
	Near []gpu.Profile
}

// maxShown is the largest number of elements of a list in an error.
const maxShown = 4

// Error returns one line with the devices, the excess, the limits, and devices that fit.
func (i *Infeasible) Error() string {
	causes := make([]string, 0, len(i.Causes))
	for _, c := range i.Causes {
		causes = append(causes, c.String())
	}
	text := fmt.Sprintf("fit %s on one GPU: ", Text(i.Want))
	if !maps.Equal(i.Want, i.Excess) {
		text += Text(i.Excess) + " is too much: "
	}
	text += joinShort(causes, "; ")
	if len(i.Nearest) == 0 {
		return text
	}
	near := make([]string, 0, len(i.Nearest))
	for _, n := range i.Nearest {
		near = append(near, Text(n))
	}
	return text + "; what fits: " + joinShort(near, ", or ")
}

// String returns the cause as a clause.
func (c Cause) String() string {
	names := joinProfiles(c.Profiles)
	switch c.Limit {
	case UnknownProfile:
		return fmt.Sprintf("the GPU has no profile %s, the nearest are %s", names, joinProfiles(c.Near))
	case Count:
		return fmt.Sprintf("at least %d GPU instances for %s are needed, and the GPU can have %d", c.Need, names, c.Have)
	case MediaEngines:
		return fmt.Sprintf("%d %s are needed for %s, and the GPU has %d", c.Need, c.Engine, names, c.Have)
	case Placements:
		return "wherever they start, two of them overlap"
	default:
		return fmt.Sprintf("%d %s are needed, and the GPU has %d", c.Need, c.Limit, c.Have)
	}
}

// Text formats devices as "2 × 3g.40gb + 1g.10gb", the largest first. A long list is cut.
func Text(devices map[gpu.Profile]int) string {
	if len(devices) == 0 {
		return "no devices"
	}
	var terms []string
	for _, p := range slices.SortedFunc(maps.Keys(devices), largest) {
		term := p.String()
		if n := devices[p]; n != 1 {
			term = fmt.Sprintf("%d × %s", n, p)
		}
		terms = append(terms, term)
	}
	return joinShort(terms, " + ")
}

func joinProfiles(profiles []gpu.Profile) string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.String())
	}
	if len(names) == 2 {
		return strings.Join(names, " and ")
	}
	return joinShort(names, ", ")
}

func joinShort(terms []string, separator string) string {
	if more := len(terms) - maxShown; more > 0 {
		terms = append(slices.Clone(terms[:maxShown]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(terms, separator)
}

// demand returns the needed number of compute instances, by kind of GPU instance and by compute
// instance profile. It also returns the causes that make a single profile infeasible. Numbers that
// no GPU can have are limited.
func (s *space) demand(want map[gpu.Profile]int) ([][]int, []Cause) {
	demand := make([][]int, len(s.kinds))
	for i, k := range s.kinds {
		demand[i] = make([]int, len(k.Compute))
	}
	var causes []Cause
	for _, p := range slices.SortedFunc(maps.Keys(want), largest) {
		i := s.find(p)
		at := -1
		if i >= 0 {
			at = slices.IndexFunc(s.kinds[i].Compute, func(c mig.ComputeProfile) bool { return c.Slices == p.ComputeSlices })
		}
		if at < 0 {
			causes = append(causes, Cause{Limit: UnknownProfile, Profiles: []gpu.Profile{p}, Near: s.nearestProfiles(p)})
			continue
		}
		k := s.kinds[i]
		each := max(1, k.Compute[at].Max)
		if want[p] > k.Max*each {
			causes = append(causes, Cause{Limit: Count, Profiles: []gpu.Profile{p}, Need: (want[p]-1)/each + 1, Have: k.Max})
		}
		demand[i][at] = min(want[p], each*(s.board.MemorySlices+1))
	}
	return demand, causes
}

// nearestProfiles returns the profiles of the board that are most similar to p, the most similar first.
func (s *space) nearestProfiles(p gpu.Profile) []gpu.Profile {
	var all []gpu.Profile
	for _, k := range s.kinds {
		for _, c := range k.Compute {
			n := k.Name
			n.ComputeSlices = c.Slices
			all = append(all, n)
		}
	}
	other := func(a, b string) int {
		if a == b {
			return 0
		}
		return 1
	}
	apart := func(a, b int) int { return max(a-b, b-a) }
	distance := func(n gpu.Profile) []int {
		return []int{
			apart(n.GPUSlices, p.GPUSlices) + apart(n.GPUSlices-n.ComputeSlices, p.GPUSlices-p.ComputeSlices),
			other(n.Attribute, p.Attribute), apart(n.GB, p.GB), n.ComputeSlices,
		}
	}
	slices.SortStableFunc(all, func(a, b gpu.Profile) int { return slices.Compare(distance(a), distance(b)) })
	return all[:min(3, len(all))]
}
