// Package payload keeps drivers on the host: the driver root that containers use, and the
// sources of its kernel modules. It imports them from what NVIDIA distributes: an archive
// (.run), what is in one, the root of a driver image, or a source tree.
package payload

import "time"

// Flavour is which of NVIDIA's two sets of kernel modules: their sources differ, the names
// of the modules do not.
type Flavour string

// The two flavours. NVIDIA's archives have them in the folders kernel-open and kernel.
const (
	Open        Flavour = "open"
	Proprietary Flavour = "proprietary"
)

// Payload is a driver in the store. Its folder is never changed.
type Payload struct {
	// Version of the driver, such as 580.95.05.
	Version string `json:"version"`
	// Digest is the SHA-256 of all paths, modes and contents, in hexadecimal. The same driver
	// has the same digest, whatever it was imported from.
	Digest string `json:"digest"`
	// Machine is the processor as uname -m names it: x86_64 or aarch64; "" for sources alone.
	Machine string `json:"machine,omitempty"`
	// Imported is when, and Origin from what: the path, for people.
	Imported time.Time `json:"imported"`
	Origin   string    `json:"origin"`

	// Dir is the folder of the payload.
	Dir string `json:"-"`
	// Root is the driver root, "" for sources alone.
	Root string `json:"-"`
	// Sources has the folder of the sources of each flavour: one with NVIDIA's Makefile, or
	// NVIDIA's source tree with the folder kernel-open in it. Do not build in it.
	Sources map[Flavour]string `json:"-"`
	// Precompiled has the folder with modules that were built elsewhere, by kernel release.
	Precompiled map[string]string `json:"-"`
}
