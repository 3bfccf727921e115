package driverroot

import (
	"fmt"
	"io/fs"
	"strings"
)

// Content lists the parts of a driver installation that containers need.
// Lists are ordered by path, so that equal installations give equal values.
type Content struct {
	// Version of the driver, as the libraries' file names carry it.
	Version string
	// Libraries of this version, of the architecture of this process.
	Libraries []Library
	Binaries  []File
	// Firmware of the GPU system processor.
	Firmware []File
	// Configs are read by graphics and OpenCL loaders.
	Configs []File
	// Sockets of the driver's daemons, and the folder of MPS pipes.
	Sockets []File
	// Control holds the device nodes that every GPU container needs.
	Control []DeviceNode
	// GPUs holds the GPUs' device nodes by minor number.
	GPUs map[int]DeviceNode
	// DRM holds the display and render nodes by PCI bus ID.
	DRM map[string][]DeviceNode
	// Caps holds the nodes that grant access to MIG instances, by minor number.
	Caps   map[int]DeviceNode
	Extras Extras

	mark mark
}

// Outdated reports whether the installation has changed since it was read. It
// looks at folders only, and so sees files that come, go or are replaced, as an
// installer does it, but not one that is written over.
func (c *Content) Outdated() bool { return c.mark.outdated() }

// File is a file, or a folder, of the host and its place in a container.
type File struct {
	// HostPath has no symbolic link below the driver root.
	HostPath string
	// Path in the container: that in the driver root.
	Path string
}

// Library is a shared library.
type Library struct {
	File
	// Names under which programs load the library, beside its file name.
	Names []string
}

// DeviceNode is a character device.
type DeviceNode struct {
	HostPath string
	// Path in the container.
	Path string
	Mode fs.FileMode
	UID  uint32
	GID  uint32
}

// Missing is a required part that was not found.
type Missing struct {
	What string
	// In lists the host paths that were searched.
	In  []string
	Fix string
}

// MissingError says which parts a driver installation lacks.
type MissingError struct {
	// Root is the driver root on the host.
	Root string
	// Required parts, at least one.
	Required []Missing
	// Optional parts that are absent too, by name.
	Optional []string
}

// Error lists all that is missing, where it was looked for, and what to do.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "driver root %s is incomplete", e.Root)
	sep := ": "
	for _, m := range e.Required {
		fmt.Fprintf(&b, "%s%s not found in %s (%s)", sep, m.What, strings.Join(m.In, ", "), m.Fix)
		sep = "; "
	}
	if len(e.Optional) > 0 {
		fmt.Fprintf(&b, "; also absent: %s", strings.Join(e.Optional, ", "))
	}
	return b.String()
}
