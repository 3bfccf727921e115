package plan

import (
	"cmp"
	"maps"
	"slices"

	"outrigger.dev/pkg/gpu"
)

// infeasible returns the error for devices without a layout. causes has the causes of single
// profiles. If it is empty, infeasible compares the devices with the limits of the GPU.
func (s *space) infeasible(want map[gpu.Profile]int, causes []Cause) *Infeasible {
	demand, _ := s.demand(want)
	if len(causes) == 0 {
		causes = s.limits(demand)
	}
	i := &Infeasible{Want: want, Causes: causes, Excess: maps.Clone(want)}
	parts := s.parts(s.pack(demand))
	if len(parts) > 0 {
		for p, n := range parts[0] {
			i.Excess[p] -= n
		}
	}
	maps.DeleteFunc(i.Excess, func(_ gpu.Profile, n int) bool { return n <= 0 })
	demand, _ = s.demand(s.translate(want))
	for _, n := range append(parts, s.similarMultisets(s.pack(demand))...) {
		if !slices.ContainsFunc(i.Nearest, func(o map[gpu.Profile]int) bool { return maps.Equal(o, n) }) {
			i.Nearest = append(i.Nearest, n)
		}
	}
	return i
}

// limits returns the limits that the needed compute instances exceed.
func (s *space) limits(demand [][]int) []Cause {
	need, _, scarce := newChoice(s, nil, demand, nil).bounds()
	var causes []Cause
	var compute, memory int
	var engines media
	for i, k := range s.kinds {
		if slices.Contains(scarce, i) {
			need[i] = k.Max + 1
			causes = append(causes, Cause{Limit: Count, Profiles: k.devices(demand[i]), Need: need[i], Have: k.Max})
		}
		compute += need[i] * k.Name.GPUSlices
		memory += need[i] * k.size()
		for e := range engines {
			engines[e] += need[i] * k.media[e]
		}
	}
	users := func(uses func(kind) bool) []gpu.Profile {
		var list []gpu.Profile
		for i, k := range s.kinds {
			if need[i] > 0 && uses(k) {
				list = append(list, k.devices(demand[i])...)
			}
		}
		return list
	}
	all := func(kind) bool { return true }
	if compute > s.board.ComputeSlices {
		causes = append(causes, Cause{Limit: ComputeSlices, Profiles: users(all), Need: compute, Have: s.board.ComputeSlices})
	}
	if memory > s.board.MemorySlices {
		causes = append(causes, Cause{Limit: MemorySlices, Profiles: users(all), Need: memory, Have: s.board.MemorySlices})
	}
	for e, n := range engines {
		if len(causes) == 0 && n > s.media[e] {
			of := users(func(k kind) bool { return k.media[e] > 0 })
			causes = append(causes, Cause{Limit: MediaEngines, Profiles: of, Need: n, Have: s.media[e], Engine: mediaNames()[e]})
		}
	}
	if len(causes) == 0 {
		causes = []Cause{{Limit: Placements, Profiles: users(all)}}
	}
	return causes
}

// devices returns the profiles of the MIG devices that a kind needs.
func (k kind) devices(demand []int) []gpu.Profile {
	var list []gpu.Profile
	for c, n := range demand {
		if n > 0 {
			list = append(list, k.device(c))
		}
	}
	slices.SortFunc(list, largest)
	return list
}

// device returns the profile of a MIG device with the compute instance profile at index c.
func (k kind) device(c int) gpu.Profile {
	p := k.Name
	p.ComputeSlices = k.Compute[c].Slices
	return p
}

// translate replaces profiles that the board does not have by the most similar ones that it has.
func (s *space) translate(want map[gpu.Profile]int) map[gpu.Profile]int {
	known := map[gpu.Profile]int{}
	for p, n := range want {
		if near := s.nearestProfiles(p); !s.hasProfile(p) && len(near) > 0 {
			p = near[0]
		}
		known[p] += n
	}
	return known
}

// group has the devices that need one GPU instance.
type group map[gpu.Profile]int

// pack distributes the needed compute instances of each kind to GPU instances, as many as possible to
// each. It ignores the limits of the GPU.
func (s *space) pack(demand [][]int) [][]group {
	packed := make([][]group, len(s.kinds))
	for i, k := range s.kinds {
		left := slices.Clone(demand[i])
		for len(packed[i]) <= s.board.MemorySlices {
			best, most := part{}, 0
			for _, p := range k.fresh {
				size := 0
				for _, c := range p.compute {
					size += c.Slices
				}
				if size > most && covers(left, p.count) {
					best, most = p, size
				}
			}
			if most == 0 {
				break
			}
			subtract(left, best.count, 1)
			g := group{}
			for c, n := range best.count {
				if n > 0 {
					g[k.device(c)] = n
				}
			}
			packed[i] = append(packed[i], g)
		}
	}
	return packed
}

// parts returns the devices of the two largest parts of the GPU instances that fit on the GPU.
func (s *space) parts(packed [][]group) []map[gpu.Profile]int {
	high := make([]int, len(packed))
	for i := range packed {
		high[i] = len(packed[i])
	}
	found := s.multisets(high)
	slices.SortStableFunc(found, func(a, b []int) int { return slices.Compare(s.weigh(b), s.weigh(a)) })
	var best [][]int
	for _, count := range found {
		within := func(o []int) bool { return covers(o, count) }
		if len(best) < 2 && sum(count) > 0 && !slices.ContainsFunc(best, within) {
			best = append(best, count)
		}
	}
	return s.devicesOf(best, packed)
}

// similarMultisets returns the devices of two sets of GPU instances that fit on the GPU: among the
// sets with as many instances as are needed, the two that are most similar to the needed set.
func (s *space) similarMultisets(packed [][]group) []map[gpu.Profile]int {
	high, need := make([]int, len(packed)), make([]int, len(packed))
	for i := range packed {
		high[i], need[i] = s.kinds[i].Max, len(packed[i])
	}
	total := sum(need)
	if total == 0 || total > s.board.MemorySlices {
		return nil
	}
	found := slices.DeleteFunc(s.multisets(high), func(count []int) bool { return sum(count) != total })
	slices.SortStableFunc(found, func(a, b []int) int {
		return slices.Compare(s.distance(a, need), s.distance(b, need))
	})
	return s.devicesOf(found[:min(2, len(found))], packed)
}

// multisets returns the numbers of instances of each kind in all layouts. The parameter high limits
// these numbers.
func (s *space) multisets(high []int) [][]int {
	var list [][]int
	known := map[string]bool{}
	s.walk(make([]int, len(high)), high, func(_ []seat, r *room) {
		key := make([]byte, len(r.count))
		for i, n := range r.count {
			key[i] = byte(n)
		}
		if !known[string(key)] {
			known[string(key)] = true
			list = append(list, slices.Clone(r.count))
		}
	})
	return list
}

// weigh returns the numbers of compute slices, memory slices and GPU instances.
func (s *space) weigh(count []int) []int {
	var compute, memory int
	for i, n := range count {
		compute += n * s.kinds[i].Name.GPUSlices
		memory += n * s.kinds[i].size()
	}
	return []int{compute, memory, sum(count)}
}

// distance returns the number of replaced instances, the number of replacements with an attribute,
// and the differences in slices.
func (s *space) distance(count, need []int) []int {
	replaced, special := 0, 0
	for i := range count {
		more := max(0, count[i]-need[i])
		replaced += more
		if s.kinds[i].Name.Attribute != "" {
			special += more
		}
	}
	a, b := s.weigh(count), s.weigh(need)
	apart := func(a, b int) int { return max(a-b, b-a) }
	return []int{replaced, special, apart(a[0], b[0]), apart(a[1], b[1])}
}

// devicesOf returns the devices for numbers of GPU instances of each kind. An instance has the devices
// of its group in packed. Without a group, it is one device.
func (s *space) devicesOf(counts [][]int, packed [][]group) []map[gpu.Profile]int {
	var list []map[gpu.Profile]int
	for _, count := range counts {
		devices := map[gpu.Profile]int{}
		for i, n := range count {
			for at := range n {
				if at >= len(packed[i]) {
					devices[s.kinds[i].Name]++
					continue
				}
				for p, n := range packed[i][at] {
					devices[p] += n
				}
			}
		}
		list = append(list, devices)
	}
	return list
}

// hasProfile reports whether the board has the profile of a MIG device.
func (s *space) hasProfile(p gpu.Profile) bool {
	i := s.find(p)
	if i < 0 {
		return false
	}
	_, ok := s.kinds[i].Of(p.ComputeSlices)
	return ok
}

// largest orders profiles like mig-parted: by GPU slices, then by compute slices. After that, it
// orders by memory and by attribute.
func largest(a, b gpu.Profile) int {
	return cmp.Or(
		cmp.Compare(b.GPUSlices, a.GPUSlices), cmp.Compare(b.ComputeSlices, a.ComputeSlices),
		cmp.Compare(b.GB, a.GB), cmp.Compare(a.Attribute, b.Attribute))
}
