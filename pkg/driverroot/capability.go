package driverroot

import "strings"

// Capabilities is a set of driver capabilities, as NVIDIA_DRIVER_CAPABILITIES
// names them. The zero value has none.
type Capabilities uint8

const (
	compute Capabilities = 1 << iota
	utility
	video
	graphics
	display
	ngx

	// screen is what draws, to a buffer or to a monitor.
	screen = graphics | display
	// every is for parts that no container with a GPU can do without.
	every = compute | utility | video | graphics | display | ngx
)

// String returns the names, in alphabetical order, as the variable has them:
// "compute,utility".
func (c Capabilities) String() string {
	var names []string
	for _, row := range []struct {
		bit  Capabilities
		name string
	}{
		{compute, "compute"}, {display, "display"}, {graphics, "graphics"}, {ngx, "ngx"}, {utility, "utility"}, {video, "video"},
	} {
		if c&row.bit != 0 {
			names = append(names, row.name)
		}
	}
	return strings.Join(names, ",")
}
