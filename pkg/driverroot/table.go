package driverroot

import (
	"path"
	"strings"
)

// Table maps the parts of a driver, by their paths in a container, to the capabilities that need
// them. A program can use it to give a container less than a CDI spec contains, even if another
// program wrote the spec.
type Table struct {
	libraries, files, sockets map[string]Capabilities
}

// NewTable returns the table of the parts that Find searches for.
func NewTable() *Table {
	t := &Table{libraries: map[string]Capabilities{}, files: map[string]Capabilities{}, sockets: map[string]Capabilities{}}
	for stem, part := range libraryParts() {
		t.libraries[stem] = part.Capabilities
		for _, name := range part.names {
			t.libraries[stemOf(name)] = part.Capabilities
		}
	}
	for _, part := range binaryParts() {
		for _, name := range part.names {
			t.files[name] = part.Capabilities
		}
	}
	for _, part := range configParts() {
		for _, name := range part.names {
			t.files[path.Base(name)] = part.Capabilities
		}
	}
	for _, part := range socketParts() {
		for _, p := range part.names {
			t.sockets[p] = part.Capabilities
		}
	}
	t.sockets[mpsFolder] = Compute
	return t
}

// Capabilities returns the capabilities that need the file, link, socket or device node at path p
// in a container. It returns false if p is not part of a driver.
func (t *Table) Capabilities(p string) (Capabilities, bool) {
	if name, ok := strings.CutPrefix(p, "/dev/"); ok {
		return nodeCapabilities(name)
	}
	if c, ok := t.sockets[p]; ok {
		return c, true
	}
	base := path.Base(p)
	if c, ok := t.files[base]; ok {
		return c, true
	}
	if isFirmware(base) && strings.Contains(p, "/firmware/nvidia/") {
		return EveryCapability, true
	}
	if !strings.Contains(base, ".so") {
		return 0, false
	}
	stem := stemOf(p)
	c, ok := t.libraries[stem]
	return c, ok || strings.HasPrefix(stem, "libnv") || strings.HasPrefix(stem, "libcuda")
}

// stemOf returns the name of a library before ".so".
func stemOf(p string) string {
	stem, _, _ := strings.Cut(path.Base(p), ".so")
	return stem
}

// nodeCapabilities returns the capabilities that need a device node, according to
// nvidia-container-cli.
func nodeCapabilities(name string) (Capabilities, bool) {
	switch {
	case name == "nvidia-uvm" || name == "nvidia-uvm-tools":
		return Compute, true
	case name == "nvidia-modeset":
		return Display, true
	case strings.HasPrefix(name, "dri/"):
		return screen, true
	case name == "nvidiactl" || gpuNode().MatchString(name) || strings.HasPrefix(name, "nvidia-caps/"):
		return EveryCapability, true
	}
	return 0, false
}
