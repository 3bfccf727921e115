package model

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// textOf returns a text of at most limit bytes, or "" for N/A.
func textOf(v strict.Value, limit int) string {
	word, ok := v.Text()
	switch {
	case !ok || word == unknown:
		return ""
	case word == "" || len(word) > limit:
		v.Bad(fmt.Sprintf("a text of 1 to %d bytes, or N/A", limit))
		return ""
	}
	return word
}

// intOf returns a number from 0 to high, or 0 for N/A.
func intOf(v strict.Value, high int) int {
	if isUnknown(v) {
		return 0
	}
	n, _ := v.Int(0, high)
	return n
}

func isUnknown(v strict.Value) bool {
	if !v.IsText() {
		return false
	}
	word, _ := v.Text()
	return word == unknown
}

// pciOf returns an ID of lspci, such as "10de:2330", as NVML writes it: device << 16 | vendor.
func pciOf(v strict.Value, missing int) int {
	if !v.Set() || isUnknown(v) {
		return missing
	}
	word, ok := v.Text()
	if !ok {
		return missing
	}
	if !pciID.MatchString(word) {
		v.Bad(`a PCI ID in quotes as lspci -n prints it, such as "10de:2330", or N/A`)
		return missing
	}
	var vendor, device int
	_, _ = fmt.Sscanf(word, "%4x:%4x", &vendor, &device)
	return device<<16 | vendor // the form of nvmlPciInfo_t
}

// word is a word of a file, and the number of NVML that it stands for.
type word struct {
	name   string
	number int
}

// brands returns the words for nvmlBrandType_t.
func brands() []word {
	return []word{{"NVIDIA", 14}, {"NVIDIA RTX", 12}, {"Tesla", 2}, {"Quadro", 1}, {"GeForce", 5}, {"Titan", 6}}
}

// architectures returns the words for nvmlDeviceArchitecture_t.
func architectures() []word {
	return []word{{"Maxwell", 3}, {"Pascal", 4}, {"Volta", 5}, {"Turing", 6}, {"Ampere", 7}, {"Ada Lovelace", 8}, {"Hopper", 9}, {"Blackwell", 10}}
}

// architectureOf returns the architecture of a compute capability. A later one than the simulator
// knows counts as Blackwell.
func architectureOf(capability [2]int) string {
	switch major, minor := capability[0], capability[1]; {
	case major <= 5: // compute capabilities
		return "Maxwell"
	case major == 6:
		return "Pascal"
	case major == 7 && minor < 5:
		return "Volta"
	case major == 7:
		return "Turing"
	case major == 8 && minor < 9:
		return "Ampere"
	case major == 8:
		return "Ada Lovelace"
	case major == 9:
		return "Hopper"
	default:
		return "Blackwell"
	}
}

// wordOf returns the number of a word, or of the word missing if the value is absent or N/A.
func wordOf(v strict.Value, words []word, missing string) int {
	name := missing
	if v.Set() && !isUnknown(v) {
		written, ok := v.Text()
		if !ok {
			return 0
		}
		name = written
	}
	if i := slices.IndexFunc(words, func(w word) bool { return w.name == name }); i >= 0 {
		return words[i].number
	}
	var names []string
	for _, w := range words {
		names = append(names, w.name)
	}
	v.Bad("one of " + strings.Join(names, ", "))
	return 0
}
