// Package cache keeps built kernel modules on the host, so that a node loads them after a reboot
// without building them.
package cache

import "time"

// Key identifies modules: equal keys mean equal modules. Each field is known on a node without
// headers and without a compiler.
type Key struct {
	// Release and Machine are the kernel's, as uname -r and uname -m print them.
	Release string `json:"release"`
	Machine string `json:"machine"`
	// Compiler is the compiler of the kernel, see build.Compiler.
	Compiler string `json:"compiler"`
	// Driver is the version of the driver, Flavour is "open" or "proprietary", and Sources is the
	// digest of the payload.
	Driver  string `json:"driver"`
	Flavour string `json:"flavour"`
	Sources string `json:"sources"`
	// Signer is the SHA-256 of the certificate of the signing key, "" for unsigned modules.
	Signer string `json:"signer,omitempty"`
}

// Module describes a file of a set.
type Module struct {
	// Name is the kernel's name of the module, such as nvidia_uvm.
	Name string `json:"name"`
	// File is the name of the file in the folder of the set, such as nvidia-uvm.ko.
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Set describes modules that were built together.
type Set struct {
	Key     Key       `json:"key"`
	Modules []Module  `json:"modules"`
	Built   time.Time `json:"built"`
	// BuiltWith describes the compiler, for people.
	BuiltWith string `json:"builtWith,omitempty"`
	// Prebuilt is set if a user built the modules while another kernel was running.
	Prebuilt bool `json:"prebuilt,omitempty"`
	// Network identifies the driver of network adapters whose headers nvidia_peermem was built with. It is
	// "" for none.
	Network string `json:"network,omitempty"`

	// Dir is the folder of the set.
	Dir string `json:"-"`
}
