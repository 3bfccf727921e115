// Package kernel observes the running kernel and its modules, and loads and unloads modules
// by system calls.
package kernel

import (
	"cmp"
	"path/filepath"
)

// Root is where the host's files are.
type Root struct {
	// Proc and Sys are the folders of procfs and sysfs. If empty, they are /proc and /sys.
	Proc, Sys string
	// Modules is the folder of installed modules. If empty, it is /lib/modules.
	Modules string
	// Dev is the folder of devices, with the kernel's log. If empty, it is /dev.
	Dev string
}

func (r Root) proc(path string) string { return filepath.Join(cmp.Or(r.Proc, "/proc"), path) }
func (r Root) sys(path string) string  { return filepath.Join(cmp.Or(r.Sys, "/sys"), path) }
func (r Root) dev(path string) string  { return filepath.Join(cmp.Or(r.Dev, "/dev"), path) }

// modules returns the path of a file that belongs to the modules of a release.
func (r Root) modules(release, path string) string {
	return filepath.Join(cmp.Or(r.Modules, "/lib/modules"), release, path)
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
	// Keys are the public keys of the kernel's keyrings. Nil means that they cannot be read.
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

// Loaded is a module that the kernel has.
type Loaded struct {
	Name, Version, SrcVersion string
	// State is "live", "coming" or "going".
	State string
	// RefCount counts the modules that depend on this one, the open files and other uses. It
	// is -1 if the kernel does not count: it cannot unload modules, or is unloading this one.
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
