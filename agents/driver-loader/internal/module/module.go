// Package module reads files of kernel modules: what a module says about itself, which
// symbols it needs and provides, and who signed it. It reads them in the form in which
// distributions ship them, compressed or not, and never asks the kernel.
package module

import "debug/elf"

// Module is a kernel module, from its file.
type Module struct {
	// Name is the name under which the kernel lists the module, such as nvidia_uvm. It is
	// that in the file, or that of the file where the module states none.
	Name string
	// Version, SrcVersion, Vermagic and License are "" where the module does not state them.
	Version, SrcVersion, Vermagic, License string
	// Depends are the modules that must be loaded before. SoftDepends are those that its
	// author wants loaded before, in the form of modprobe: "pre: a b post: c".
	Depends, SoftDepends []string
	// Params are the parameters in the order of the file.
	Params []Param
	// Needs are the symbols of the kernel and of other modules that the module was built
	// against, with their versions. It is empty for a kernel without CONFIG_MODVERSIONS.
	Needs map[string]uint32
	// Undefined are the symbols that must exist when the module is loaded, in order of
	// name. Weak ones are not among them.
	Undefined []string
	// Provides are the symbols that the module exports. The version is 0 where the file has none.
	Provides map[string]uint32
	// Signature is nil for a module without a signature.
	Signature *Signature
	Machine   elf.Machine
	// Data is the file, decompressed, with its signature: what the kernel loads.
	Data []byte
}

// Param is a parameter of a module.
type Param struct {
	Name string
	// Type is that of the kernel's module_param, such as "bool", "charp" or "array of int";
	// "" where the module does not state it.
	Type        string
	Description string
}

// Signature is who signed a module, as the module says. It is not verified: only the
// kernel has the keys.
type Signature struct {
	// Signer is the common name of the issuer of the signer's certificate, "" where the
	// signature names only the key.
	Signer string
	// KeyID are hexadecimal digits: the serial number of the certificate, or the
	// identifier of its key if ByKey.
	KeyID string
	ByKey bool
	// Hash is the algorithm of the digest, such as "sha512".
	Hash string
}
