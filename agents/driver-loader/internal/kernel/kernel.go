// Package kernel observes the running kernel and its modules, and loads and unloads modules
// by system calls.
package kernel

import (
	"context"

	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/agents/driver-loader/internal/module"
)

// Root is where the host's files are.
type Root struct {
	// Proc and Sys are the folders of procfs and sysfs. If empty, they are /proc and /sys.
	Proc, Sys string
	// Modules is the folder of installed modules. If empty, it is /lib/modules.
	Modules string
	// Dev is the folder of devices. If empty, it is /dev.
	Dev string
}

// Kernel is the running kernel, and what it demands of modules.
type Kernel struct {
	// Release is that of uname: "6.1.0-56-amd64".
	Release string
	// Machine is that of uname: "x86_64".
	Machine string
	// Banner is the line of /proc/version, and Compiler the part of it that names the
	// compiler, such as "gcc-12 (Debian 12.2.0-14) 12.2.0".
	Banner, Compiler string
	// Vermagic is that of a module which the distribution built for this kernel. It is "" where
	// no module of the kernel is installed.
	Vermagic string
	// Lockdown is the mode of kernel_lockdown(7): "none", "integrity", "confidentiality",
	// or "" if the kernel does not tell.
	Lockdown string
	// SigEnforce reports whether the kernel rejects modules without a valid signature.
	SigEnforce bool
	// SecureBoot is nil on a machine without EFI, or where efivarfs is not mounted.
	SecureBoot *bool
	// Keys are the keys of the kernel's keyrings. Nil means that they cannot be read.
	Keys []Key
}

// Key is a public key in a keyring of the kernel.
type Key struct {
	// Name is that of the subject of its certificate.
	Name string
	// ID are the hexadecimal digits of the key's identifier, or of the certificate's
	// serial number if it has none.
	ID string
}

// ModVersions reports whether the kernel checks the versions of symbols. It is false
// where Vermagic is not known.
func (k Kernel) ModVersions() bool { return hasFlag(k.Vermagic, "modversions") }

// Loaded is a module that the kernel has.
type Loaded struct {
	Name, Version, SrcVersion string
	// State is "live", "coming" or "going".
	State string
	// RefCount counts the modules that depend on this one, and the open files and other
	// uses. It is -1 for a module that cannot be unloaded.
	RefCount int
	// Holders are the modules that depend on this one, in order of name.
	Holders []string
	// Params are the values of the parameters that the module shows.
	Params map[string]string
	// Taint are the letters of its taints, such as "OE".
	Taint string
	// Size is in bytes.
	Size int64
}

// Codes of the causes why the kernel does not load or unload a module.
const (
	// DependencyMissing: a symbol is not exported by the kernel or a loaded module.
	DependencyMissing cause.Code = "ModuleDependencyMissing"
	// SymbolMismatch: a symbol has another version.
	SymbolMismatch cause.Code = "ModuleSymbolMismatch"
	// NoDevice: the module found no device that it supports.
	NoDevice cause.Code = "ModuleFoundNoDevice"
	// InitFailed: the module's own initialization failed.
	InitFailed cause.Code = "ModuleInitFailed"
	// BadParameter: the kernel or the module rejected a parameter.
	BadParameter cause.Code = "ModuleParameterInvalid"
	// AlreadyLoaded: a module of that name is loaded.
	AlreadyLoaded cause.Code = "ModuleAlreadyLoaded"
	// NotLoaded: no module of that name is loaded.
	NotLoaded cause.Code = "ModuleNotLoaded"
	// InUse: a module or a process uses the module.
	InUse cause.Code = "ModuleInUse"
	// NotUnloadable: the module is built in, or was made without a way to unload it.
	NotUnloadable cause.Code = "ModuleCannotBeUnloaded"
	// BadFormat: the file is not a module, or was built for another kernel.
	BadFormat cause.Code = "ModuleFormatInvalid"
	// SignatureRejected: the kernel demands a signature by a key that it knows.
	SignatureRejected cause.Code = "ModuleSignatureRejected"
	// NotPermitted: the process lacks the right, or a policy forbids it.
	NotPermitted cause.Code = "ModuleNotPermitted"
	// NoMemory: the kernel has no memory for the module.
	NoMemory cause.Code = "ModuleNoMemory"
)

// Syscalls loads and unloads modules. Its errors are, or wrap, a cause.Cause.
type Syscalls interface {
	// Load loads a module with parameters in the form "name=value". The module's file is
	// passed to the kernel as it is in m.Data.
	Load(ctx context.Context, m *module.Module, params []string) error
	// Unload unloads a module by its name, and never waits for its users.
	Unload(name string) error
}
