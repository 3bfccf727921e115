// Package module reads files of kernel modules: their metadata, the symbols that they need and export,
// and their signers. It reads compressed and uncompressed files, and does not use the kernel.
package module

import "debug/elf"

// Module describes a kernel module, as read from its file.
type Module struct {
	// Name is the kernel's name of the module, such as nvidia_uvm. If the module does not state its
	// name, it is derived from the name of the file.
	Name string
	// BuildID has the hexadecimal digits of the identifier that the linker made from the content. It is "" for a module
	// without one.
	BuildID string
	// Version, SrcVersion, Vermagic and License are "" if the module does not state them.
	Version, SrcVersion, Vermagic, License string
	// Depends are the modules that must be loaded before this one.
	Depends []string
	// Params are the parameters, in the order of the file.
	Params []Param
	// Needs has the versions of the symbols of the kernel and of other modules that the module was
	// built against. It is empty for a kernel without CONFIG_MODVERSIONS.
	Needs map[string]uint32
	// Undefined are the symbols that must exist when the module is loaded, ordered by name. It does
	// not include weak symbols.
	Undefined []string
	// Provides has the exported symbols with their versions. The version is 0 if the file has none.
	Provides map[string]uint32
	// Signature is nil for an unsigned module.
	Signature *Signature
	Machine   elf.Machine
	// Data is the decompressed file with its signature, which the kernel loads.
	Data []byte
}

// Param describes a parameter of a module.
type Param struct {
	Name string
	// Type is the type in the kernel's module_param, such as "bool", "charp" or "array of int". It is
	// "" if the module does not state it.
	Type string
}

// Signature describes the signer of a module. It is not verified, because only the kernel has the keys.
type Signature struct {
	// Signer is the common name of the issuer of the signer's certificate. It is "" if the signature
	// names only the key.
	Signer string
	// KeyID has hexadecimal digits: the identifier of the key if ByKey is set, and otherwise the
	// serial number of the certificate.
	KeyID string
	ByKey bool
}
