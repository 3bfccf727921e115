package model

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/config/strict"
)

const (
	// maxSlices is the most memory slices of a board, and the most GPU instances.
	maxSlices = 8
	// maxProfiles is NVML_GPU_INSTANCE_PROFILE_COUNT.
	maxProfiles = 18
)

// migOf reads the MIG table of a GPU with this memory in MiB.
func migOf(root section, memory int) *MIG {
	if v := root.Get("mig"); !v.Set() || isUnknown(v) {
		return nil
	}
	t := root.Map("mig", "computeSlices", "memorySlices", "sliceSMs", "modeNeedsReset", "lowestPlaceFirst", "profiles")
	m := &MIG{SliceSMs: intOf(t.Get("sliceSMs"), maxNumber)}
	m.ComputeSlices, m.MemorySlices = required(t.Get("computeSlices"), 1, maxSlices-1), required(t.Get("memorySlices"), 1, maxSlices)
	m.ModeNeedsReset, _ = t.Get("modeNeedsReset").Bool()
	m.LowestPlaceFirst, _ = t.Get("lowestPlaceFirst").Bool()
	list := t.Get("profiles")
	if !list.Set() || list.IsList() && len(list.List()) == 0 {
		list.Missing("a list of GPU instance profiles")
	}
	for _, entry := range list.List() {
		p := profileOf(entry)
		m.checkPlaces(entry, p)
		if p.MemoryMiB > memory && memory > 0 {
			entry.Fail("memoryMiB %d is more than the memory of the GPU, %d MiB: reduce it, or write mig: N/A for a GPU without MIG", p.MemoryMiB, memory)
		}
		for _, other := range m.Profiles {
			if other.Name == p.Name || other.Number == p.Number || other.ID == p.ID {
				entry.Fail("has the name, number or id of the profile %s: each must be unique", other.Name)
			}
		}
		m.Profiles = append(m.Profiles, p)
	}
	return m
}

func profileOf(v strict.Value) Profile {
	f := v.Map("name", "number", "id", "slices", "size", "starts", "max", "memoryMiB", "sms", "copies", "decoders", "encoders", "jpegs", "ofas", "verified")
	p := Profile{
		Name: textOf(f.Get("name"), maxName), Number: required(f.Get("number"), 0, maxProfiles-1), ID: required(f.Get("id"), 0, maxNumber),
		Slices: required(f.Get("slices"), 1, maxSlices-1), Size: required(f.Get("size"), 1, maxSlices), Max: required(f.Get("max"), 1, maxSlices-1),
		MemoryMiB: required(f.Get("memoryMiB"), 1, maxMemory), SMs: intOf(f.Get("sms"), maxNumber), Copies: intOf(f.Get("copies"), maxNumber),
		Engines: enginesOf(f),
	}
	if !f.Get("name").Set() {
		f.Get("name").Missing("the name in nvidia-smi, such as 1g.10gb")
	}
	if sizes := []int{1, 2, 3, 4, 7}; p.Slices > 0 && !slices.Contains(sizes, p.Slices) {
		f.Get("slices").Bad("1, 2, 3, 4 or 7")
	}
	p.Verified, _ = f.Get("verified").Bool()
	starts := f.Get("starts")
	if !starts.Set() {
		starts.Missing("the list of the first memory slices, such as [0, 4]")
	}
	for _, s := range starts.List() {
		if n, ok := s.Int(0, maxSlices-1); ok {
			p.Starts = append(p.Starts, n)
		}
	}
	return p
}

// checkPlaces reports a profile that does not fit on the board.
func (m *MIG) checkPlaces(entry strict.Value, p Profile) {
	if p.Slices > m.ComputeSlices && m.ComputeSlices > 0 {
		entry.Fail("slices %d is more than computeSlices, %d", p.Slices, m.ComputeSlices)
	}
	for _, start := range p.Starts {
		if start+p.Size > m.MemorySlices && m.MemorySlices > 0 {
			entry.Fail("an instance of %d memory slices at %d ends after the last of the %d memory slices: remove the start or reduce the size", p.Size, start, m.MemorySlices)
		}
	}
}

// required returns a number of the range. It reports a missing value.
func required(v strict.Value, low, high int) int {
	if !v.Set() {
		v.Missing(fmt.Sprintf("an integer from %d to %d", low, high))
	}
	n, _ := v.Int(low, high)
	return n
}
