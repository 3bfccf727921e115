package resource

import (
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
)

// gpuTexts returns the texts of a GPU that a pattern can match: product name, UUID, memory and PCI
// bus ID. It has several forms of the bus ID, because people copy it from sysfs or nvidia-smi.
// These write the domain with 4 or 8 digits, in lower or upper case.
func gpuTexts(g *gpu.GPU) []string {
	long := longBusID(g.PCI.BusID)
	return []string{
		g.Name, string(g.UUID), memoryText(g),
		g.PCI.BusID, strings.ToUpper(g.PCI.BusID), long, strings.ToUpper(long),
	}
}

// migTexts returns the texts of a MIG device that a pattern can match.
func migTexts(m *gpu.MIGDevice) []string { return []string{m.Profile.String(), string(m.UUID)} }

// matches reports whether the pattern matches one of the texts.
func matches(pattern string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return glob(pattern, text) })
}

// glob reports whether the pattern matches the whole text. "*" matches any text, even an empty one.
// A pattern does not match an empty text, which is unknown.
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
		// The earliest match of each part leaves the most text to the later parts.
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, part)
		}
		_, text, ok = strings.Cut(text, part)
		rest = more
	}
	return false
}

// memoryText returns the memory in whole GiB, rounded up, as in the names of MIG profiles. It
// rounds up because the driver reserves part of the memory and reports less than the data sheet.
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
