package resource

import (
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
)

// gpuTexts returns what patterns are compared with for a GPU: product name,
// UUID, memory and PCI bus ID. sysfs and nvidia-smi write the last one with 4 or
// 8 digits of the domain, in small or capital letters; people copy from either.
func gpuTexts(g *gpu.GPU) []string {
	long := longBusID(g.PCI.BusID)
	return []string{
		g.Name, string(g.UUID), memoryText(g),
		g.PCI.BusID, strings.ToUpper(g.PCI.BusID), long, strings.ToUpper(long),
	}
}

// migTexts returns what patterns are compared with for a MIG device.
func migTexts(m *gpu.MIGDevice) []string { return []string{m.Profile.String(), string(m.UUID)} }

// matches reports whether one of the texts is as the pattern says.
func matches(pattern string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return glob(pattern, text) })
}

// glob reports whether all of text is as the pattern says, in which "*" stands
// for any text, also none. A text that is not known matches nothing.
func glob(pattern, text string) bool {
	if text == "" {
		return false
	}
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	for ok {
		// The earliest place of each part leaves the most to those behind.
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, part)
		}
		_, text, ok = strings.Cut(text, part)
		rest = more
	}
	return false
}

// memoryText returns the memory in whole GiB, rounded up, as the names of MIG
// profiles count it: a driver keeps part of it, so that less than what the GPU
// is sold with is left.
func memoryText(g *gpu.GPU) string {
	if g.MemoryBytes == 0 {
		return ""
	}
	const gib = 1 << 30
	return strconv.FormatUint((g.MemoryBytes+gib-1)/gib, 10) + "GB"
}

func longBusID(bus string) string {
	domain, _, ok := strings.Cut(bus, ":")
	if !ok || len(domain) > 8 {
		return ""
	}
	return strings.Repeat("0", 8-len(domain)) + bus
}
