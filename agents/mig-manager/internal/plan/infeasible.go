package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Infeasible is the error for MIG devices that no layout of the board has together.
type Infeasible struct {
	Want map[gpu.Profile]int
	// Causes has one element at least.
	Causes []Cause
	// Excess is what has to go so that the rest fits: the least of it.
	Excess map[gpu.Profile]int
	// Nearest has feasible devices that come close: first the largest parts of Want, then
	// those that are as many, with other profiles. It may be empty.
	Nearest []map[gpu.Profile]int
}

// Limit is what devices exceed.
type Limit string

// The limits of a board.
const (
	UnknownProfile Limit = "unknown profile"
	Count          Limit = "number of instances"
	ComputeSlices  Limit = "compute slices"
	MemorySlices   Limit = "memory slices"
	MediaEngines   Limit = "media engines"
	// Placements is the limit if no other is exceeded: instances fit by their sizes, and
	// overlap wherever they start.
	Placements Limit = "placements"
)

// Cause is a limit that devices exceed.
type Cause struct {
	Limit Limit
	// Profiles are those that use what is limited, ordered by name.
	Profiles []gpu.Profile
	// Need is what they need at least, and Have what the GPU has. Both are 0 for
	// UnknownProfile and Placements.
	Need, Have int
	// Engine names the media engines.
	Engine string
	// Near has the profiles of the board that are most like an unknown one.
	Near []gpu.Profile
}

// maxShown is how much is shown of a list in an error.
const maxShown = 4

// Error returns one line that names the devices, what of them is too much, the limits, and
// what fits.
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

// Text returns devices as "2 × 3g.40gb + 1g.10gb", the largest first. A long list is cut.
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

// demand returns how many compute instances of each profile are needed in each kind of GPU
// instance, and why a profile alone rules the devices out. What no GPU can have is cut short.
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

// nearestProfiles returns the profiles of the board that are most like p, the nearest first.
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
