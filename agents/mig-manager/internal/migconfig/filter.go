package migconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"outrigger.dev/pkg/config/strict"
	"outrigger.dev/pkg/gpu"
)

// Filter matches a product.
type Filter struct {
	// Device has the PCI device ID in the high 16 bits and the vendor ID in the low 16 bits.
	Device uint32
	// Subsystem is 0 to match any subsystem.
	Subsystem uint32
}

// String returns the filter in the format of config files: 0x233010DE, or 0x233010DE:0x16C110DE.
func (f Filter) String() string {
	if f.Subsystem == 0 {
		return fmt.Sprintf("0x%08X", f.Device)
	}
	return fmt.Sprintf("0x%08X:0x%08X", f.Device, f.Subsystem)
}

// Matches reports whether the filter matches the GPU at pci.
func (f Filter) Matches(pci gpu.PCI) bool {
	return f.Device == pci.DeviceID && (f.Subsystem == 0 || f.Subsystem == pci.SubsystemID)
}

// nvidia is NVIDIA's PCI vendor ID.
const nvidia = 0x10de

var filterText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^0[xX]([0-9a-fA-F]{8})(?::0[xX]([0-9a-fA-F]{8}))?$`)
})

// ParseFilter parses a filter. It rejects an invalid text, which mig-parted treats as a filter that
// matches no GPU.
func ParseFilter(text string) (Filter, error) {
	const form = "must be the PCI device and vendor, such as 0x233010DE, or with the subsystem, such as 0x233010DE:0x16C110DE"
	m := filterText().FindStringSubmatch(text)
	if m == nil {
		return Filter{}, fmt.Errorf("invalid device filter %q: %s", text, form)
	}
	hex := func(s string) uint32 {
		n, _ := strconv.ParseUint(s, 16, 32) // the pattern allows only hexadecimal digits or ""
		return uint32(n)
	}
	f := Filter{Device: hex(m[1]), Subsystem: hex(m[2])}
	switch {
	case f.Device&0xffff == nvidia:
		return f, nil
	case f.Device>>16 == nvidia:
		return Filter{}, fmt.Errorf("invalid device filter %q: it has the vendor first: must be 0x%04X10DE", text, f.Device&0xffff)
	default:
		return Filter{}, fmt.Errorf("invalid device filter %q: it does not end with NVIDIA's vendor 10DE: %s", text, form)
	}
}

// filters reads a device filter or a list of device filters. An empty text and an empty list match all
// products, as in mig-parted.
func filters(v strict.Value) []Filter {
	if !v.Set() {
		return nil
	}
	values := []strict.Value{v}
	if v.IsList() {
		values = v.List()
	}
	var out []Filter
	for _, entry := range values {
		word, ok := entry.Text()
		if !ok || word == "" && !v.IsList() {
			continue
		}
		f, err := ParseFilter(word)
		if err != nil {
			entry.Fail("%v", err)
			continue
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
