package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// majors has the character majors that the kernel assigns to the driver's modules.
type majors struct{ uvm, caps, imex uint32 }

// maxMajor is the highest major that the kernel assigns.
const maxMajor = 511

// charDevice is one line of the character section of /proc/devices.
type charDevice struct {
	major uint32
	name  string
}

// procDevices is the parsed content of /proc/devices.
type procDevices struct {
	chars []charDevice
	rest  string // the block section
}

// parseDevices parses /proc/devices. It drops lines of NVIDIA's driver, which may be simulated.
func parseDevices(text string) procDevices {
	head, rest, _ := strings.Cut(text, "\n\n")
	p := procDevices{rest: rest}
	for line := range strings.Lines(head) {
		fields := strings.Fields(line)
		if len(fields) != 2 || strings.HasPrefix(fields[1], "nvidia") {
			continue
		}
		if major, err := strconv.ParseUint(fields[0], 10, 32); err == nil {
			p.chars = append(p.chars, charDevice{uint32(major), fields[1]})
		}
	}
	return p
}

// hasRealDriver reports whether /proc/devices lists NVIDIA's driver.
func hasRealDriver(text string) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == strconv.Itoa(nvidiaMajor) {
			return true
		}
	}
	return false
}

// majors returns the three highest free majors. No driver of the machine serves them, so opening a
// node with such a major fails with ENXIO.
func (p procDevices) majors() majors {
	var free []uint32
	for n := uint32(maxMajor); len(free) < 3; n-- {
		if !slices.ContainsFunc(p.chars, func(c charDevice) bool { return c.major == n }) {
			free = append(free, n)
		}
	}
	return majors{uvm: free[0], caps: free[1], imex: free[2]}
}

// render returns the text of /proc/devices. loaded adds the driver's lines.
func (p procDevices) render(loaded bool) string {
	chars := slices.Clone(p.chars)
	if loaded {
		m := p.majors()
		chars = append(chars,
			charDevice{nvidiaMajor, "nvidia"}, charDevice{nvidiaMajor, "nvidia-modeset"}, charDevice{nvidiaMajor, "nvidiactl"},
			charDevice{m.imex, "nvidia-caps-imex-channels"}, charDevice{m.caps, "nvidia-caps"}, charDevice{m.uvm, "nvidia-uvm"})
	}
	slices.SortStableFunc(chars, func(a, b charDevice) int { return int(a.major) - int(b.major) })
	var b strings.Builder
	b.WriteString("Character devices:\n")
	for _, c := range chars {
		fmt.Fprintf(&b, "%3d %s\n", c.major, c.name)
	}
	b.WriteString("\n" + p.rest)
	return b.String()
}
