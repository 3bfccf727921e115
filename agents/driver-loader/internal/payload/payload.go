// Package payload stores drivers on the host: the driver root for containers, and the sources of the
// kernel modules. It imports them from NVIDIA's distributions: an archive (.run), its content, the root of
// a driver image, Debian packages in it, or a source tree.
package payload

import "time"

// Flavour is one of NVIDIA's two variants of the kernel modules. The variants have different sources and
// the same module names.
type Flavour string

// The two flavours. NVIDIA's archives have them in the folders kernel-open and kernel.
const (
	Open        Flavour = "open"
	Proprietary Flavour = "proprietary"
)

// Payload is a driver in the store. Its folder is immutable.
type Payload struct {
	// Version is the version of the driver, such as 580.95.05, or 580.95.05-grid for virtual machines.
	Version string `json:"version"`
	// Digest is the SHA-256 of all paths, modes and contents, in hexadecimal digits. It does not depend
	// on the source of the import.
	Digest string `json:"digest"`
	// Machine is the architecture, as uname -m prints it: x86_64 or aarch64. It is "" for sources only.
	Machine string `json:"machine,omitempty"`
	// Imported is the time of the last import, and Origin the imported path, for people.
	Imported time.Time `json:"imported"`
	Origin   string    `json:"origin"`

	// Dir is the folder of the payload.
	Dir string `json:"-"`
	// Root is the driver root, "" for sources only.
	Root string `json:"-"`
	// Sources has the folder with the sources of each flavour: a folder with NVIDIA's Makefile, or
	// NVIDIA's source tree with the folder kernel-open. Do not build in these folders.
	Sources map[Flavour]string `json:"-"`
	// Precompiled has the folders with precompiled modules, by kernel release and flavour.
	Precompiled map[string]map[Flavour]string `json:"-"`
}
