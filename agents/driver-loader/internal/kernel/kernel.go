// Package kernel observes the running kernel and its modules. It loads and unloads modules with
// system calls.
package kernel

import (
	"cmp"
	"path/filepath"
)

// Root has the paths of the host's folders.
type Root struct {
	// Proc and Sys are the folders of procfs and sysfs. Default: /proc and /sys.
	Proc, Sys string
	// Modules is the folder of installed modules. Default: /lib/modules.
	Modules string
	// Dev is the folder of device nodes, with the kernel's log. Default: /dev.
	Dev string
}

func (r Root) proc(path string) string { return filepath.Join(cmp.Or(r.Proc, "/proc"), path) }
func (r Root) sys(path string) string  { return filepath.Join(cmp.Or(r.Sys, "/sys"), path) }
func (r Root) dev(path string) string  { return filepath.Join(cmp.Or(r.Dev, "/dev"), path) }

// modules returns the path of a file in the folder of a release's modules.
func (r Root) modules(release, path string) string {
	return filepath.Join(cmp.Or(r.Modules, "/lib/modules"), release, path)
}

// Kernel describes the running kernel, and its requirements for modules.
type Kernel struct {
	// Release is the kernel's release, as uname -r prints it: "6.1.0-56-amd64".
	Release string
	// Machine is the architecture, as uname -m prints it: "x86_64".
	Machine string
	// Banner is the line of /proc/version.
	Banner string
	// Vermagic is the vermagic of a module that the distribution built for this kernel. It is ""
	// if no module of the kernel is installed.
	Vermagic string
	// Lockdown is the mode of kernel_lockdown(7): "none", "integrity", "confidentiality", or ""
	// if it is not known.
	Lockdown string
	// SigEnforce reports whether the kernel rejects modules without a valid signature.
	SigEnforce bool
	// SecureBoot is nil on a machine without EFI, or where efivarfs is not mounted.
	SecureBoot *bool
	// Keys are the public keys in the kernel's keyrings. It is nil if they cannot be read.
	Keys []Key
}

// Key is a public key in a keyring of the kernel.
type Key struct {
	// Name is the name of the subject of the key's certificate.
	Name string
	// ID has the hexadecimal digits of the key identifier, or of the certificate's serial
	// number if the key has no identifier.
	ID string
}

// Loaded describes a loaded module.
type Loaded struct {
	Name, Version, SrcVersion string
	// BuildID has the hexadecimal digits of the module's build ID. It is "" if the module or the kernel has none.
	BuildID string
	// State is "live", "coming" or "going".
	State string
	// RefCount counts the modules that depend on this one, open files, and other uses. It is -1 if
	// the kernel does not count, because it cannot unload modules or is unloading this one.
	RefCount int
	// Holders are the modules that depend on this one, ordered by name.
	Holders []string
	// Params has the values of the readable parameters.
	Params map[string]string
	// Taint has the letters of the module's taint flags, such as "OE".
	Taint string
}
