package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// majors are the character majors that the kernel gives the driver's modules.
type majors struct{ uvm, caps uint32 }

// maxMajor is the end of the range from which the kernel gives out majors.
const maxMajor = 511

// charDevice is one line of the character section of /proc/devices.
type charDevice struct {
	major uint32
	name  string
}

// procDevices is /proc/devices, taken apart.
type procDevices struct {
	chars []charDevice
	rest  string // the block section
}

// parseDevices reads the text of /proc/devices and leaves out what a simulated
// driver may have put there.
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

// hasRealDriver reports whether the text of /proc/devices names NVIDIA's driver.
func hasRealDriver(text string) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == strconv.Itoa(nvidiaMajor) {
			return true
		}
	}
	return false
}

// majors returns the highest free ones, which no driver of the machine serves:
// opening a node with such a major answers ENXIO.
func (p procDevices) majors() majors {
	var free []uint32
	for n := uint32(maxMajor); len(free) < 2; n-- {
		if !slices.ContainsFunc(p.chars, func(c charDevice) bool { return c.major == n }) {
			free = append(free, n)
		}
	}
	return majors{uvm: free[0], caps: free[1]}
}

// render returns the text of /proc/devices, with the driver's lines if it is
// loaded.
func (p procDevices) render(loaded bool) string {
	chars := slices.Clone(p.chars)
	if loaded {
		m := p.majors()
		chars = append(chars,
			charDevice{nvidiaMajor, "nvidia"}, charDevice{nvidiaMajor, "nvidia-modeset"}, charDevice{nvidiaMajor, "nvidiactl"},
			charDevice{m.caps, "nvidia-caps"}, charDevice{m.uvm, "nvidia-uvm"})
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
