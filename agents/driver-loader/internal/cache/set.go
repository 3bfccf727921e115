// Package cache keeps built kernel modules on the host, so that a node that boots again
// loads them without building.
package cache

import "time"

// Key is all that decides whether modules fit: equal keys, equal modules. Each part can be
// read on a node that has neither headers nor a compiler.
type Key struct {
	// Release of the kernel, as uname -r, and the processor, as uname -m.
	Release string `json:"release"`
	Machine string `json:"machine"`
	// Compiler is that of the kernel, see build.Compiler.
	Compiler string `json:"compiler"`
	// Driver is the version, Flavour "open" or "proprietary", and Sources the digest of the
	// payload.
	Driver  string `json:"driver"`
	Flavour string `json:"flavour"`
	Sources string `json:"sources"`
	// Signer is the SHA-256 of the certificate that the modules are signed with, "" for none.
	Signer string `json:"signer,omitempty"`
}

// Module is one file of a set.
type Module struct {
	// Name as the kernel knows it, such as nvidia_uvm.
	Name string `json:"name"`
	// File in the folder of the set, such as nvidia-uvm.ko.
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Set is the modules that were built together.
type Set struct {
	Key     Key       `json:"key"`
	Modules []Module  `json:"modules"`
	Built   time.Time `json:"built"`
	// BuiltWith is the compiler that was used, for people.
	BuiltWith string `json:"builtWith,omitempty"`
	// Prebuilt is set if another kernel was running then.
	Prebuilt bool `json:"prebuilt,omitempty"`

	// Dir is the folder of the set.
	Dir string `json:"-"`
}
