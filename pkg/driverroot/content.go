package driverroot

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Content lists the parts of a driver installation that containers need.
// Lists are ordered by path, so that equal installations give equal values.
type Content struct {
	// Version of the driver, from the file names of the libraries.
	Version string
	// Libraries of this version, of the architecture of this process.
	Libraries []Library
	Binaries  []File
	// Firmware of the GPU system processor.
	Firmware []File
	// Configs are files that graphics, OpenCL and X loaders read.
	Configs []File
	// Sockets of the driver's daemons, and the folder of MPS pipes.
	Sockets []File
	// Control holds the device nodes that all GPUs share.
	Control []DeviceNode
	// GPUs holds the GPUs' device nodes by minor number.
	GPUs map[int]DeviceNode
	// DRM holds the display and render nodes by PCI bus ID.
	DRM map[string][]DeviceNode
	// Caps holds the nodes that grant access to MIG instances, by minor number.
	Caps   map[int]DeviceNode
	Extras Extras

	mark searchState
}

// Outdated reports whether the installation has changed since it was read. It compares only
// folders. It notices files that are added, removed or replaced, as installers do, but not files
// that are overwritten.
func (c *Content) Outdated() bool { return c.mark.outdated() }

// Watched returns the folders, as this process sees them, whose changes can make the content
// outdated. It omits folders whose changes inotify does not report, or that change all the time for
// other reasons. Only Outdated notices a driver root that is mounted again, or a folder of MPS
// pipes that appears.
func (c *Content) Watched() []string { return c.mark.watched() }

// Capabilities returns the driver capabilities of the libraries in the installation.
func (c *Content) Capabilities() Capabilities {
	var out Capabilities
	for _, l := range c.Libraries {
		out |= l.Capabilities
	}
	return out
}

// File is a file, or a folder, of the host and its path in a container.
type File struct {
	// HostPath has no symbolic link below the driver root.
	HostPath string
	// Path in the container. It equals the path in the driver root, except for Configs.
	Path string
	// Capabilities need the file. If they are empty, only containers with all capabilities get the
	// file.
	Capabilities Capabilities
}

// Library is a shared library.
type Library struct {
	File
	// Names under which programs load the library or link to it, in addition to its file name. A
	// name with a folder is below the folder of the library.
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

// Missing is a required part that Find did not find.
type Missing struct {
	What string
	// The field In has the host paths that were searched.
	In  []string
	Fix string
}

// MissingError names the parts that a driver installation lacks.
type MissingError struct {
	// Root is the driver root on the host.
	Root string
	// Required parts, at least one.
	Required []Missing
	// Optional parts that are also absent.
	Optional []string
}

// Error lists every missing part, its expected path, and the fix, in one short line. Parts that
// were searched in the same folders are named together. Searched returns all folders.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "driver root %s is incomplete", e.Root)
	sep := ": "
	for rest := e.Required; len(rest) > 0; {
		var parts []string
		first := rest[0]
		for len(rest) > 0 && rest[0].Fix == first.Fix && slices.Equal(rest[0].In, first.In) {
			parts, rest = append(parts, rest[0].What), rest[1:]
		}
		fmt.Fprintf(&b, "%s%s not found in %s (%s)", sep, strings.Join(parts, ", "), abbreviate(first.In), first.Fix)
		sep = "; "
	}
	if len(e.Optional) > 0 {
		fmt.Fprintf(&b, "; also absent: %s", strings.Join(e.Optional, ", "))
	}
	return b.String()
}

// abbreviate returns one or two folders, or the first folder and the number of the others.
func abbreviate(folders []string) string {
	if len(folders) < 3 {
		return strings.Join(folders, ", ")
	}
	return fmt.Sprintf("%s and %d other folders", folders[0], len(folders)-1)
}

// Searched returns all searched folders of each required part.
func (e *MissingError) Searched() string {
	parts := make([]string, len(e.Required))
	for i, m := range e.Required {
		parts[i] = m.What + ": " + strings.Join(m.In, ", ")
	}
	return strings.Join(parts, "; ")
}
