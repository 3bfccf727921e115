package driverroot

import (
	"fmt"
	"strings"
)

// Capabilities is a set of driver capabilities, with the names that NVIDIA_DRIVER_CAPABILITIES
// accepts. The zero value is the empty set.
type Capabilities uint8

// The driver capabilities, and the set of all of them. The variable also accepts compat32, which
// selects 32-bit libraries. Find does not search for these.
const (
	Compute Capabilities = 1 << iota
	Utility
	Video
	Graphics
	Display
	NGX

	EveryCapability = Compute | Utility | Video | Graphics | Display | NGX
)

// screen is the set of capabilities that draw, to a buffer or to a monitor.
const screen = Graphics | Display

// capabilityName is a capability with its name.
type capabilityName struct {
	bit  Capabilities
	name string
}

// capabilityNames returns the capabilities in the alphabetical order of their names.
func capabilityNames() []capabilityName {
	return []capabilityName{
		{Compute, "compute"}, {Display, "display"}, {Graphics, "graphics"}, {NGX, "ngx"}, {Utility, "utility"}, {Video, "video"},
	}
}

// String returns the names in alphabetical order, in the form of the variable: "compute,utility".
func (c Capabilities) String() string {
	var names []string
	for _, row := range capabilityNames() {
		if c&row.bit != 0 {
			names = append(names, row.name)
		}
	}
	return strings.Join(names, ",")
}

// ParseCapabilities returns the set of the named capabilities. The name compat32 is valid and adds
// nothing.
func ParseCapabilities(names ...string) (Capabilities, error) {
	var out Capabilities
	for _, name := range names {
		bit, ok := capabilityNamed(name)
		if !ok {
			return 0, fmt.Errorf("unknown driver capability %q: use any of compat32,%s", name, EveryCapability)
		}
		out |= bit
	}
	return out, nil
}

func capabilityNamed(name string) (Capabilities, bool) {
	for _, row := range capabilityNames() {
		if row.name == name {
			return row.bit, true
		}
	}
	return 0, name == "compat32"
}

// Admits reports whether a container with the capabilities c gets a part that needs any of the
// capabilities in part. If part is empty, only containers with all capabilities get it.
func (c Capabilities) Admits(part Capabilities) bool {
	return c&part != 0 || part == 0 && c == EveryCapability
}
