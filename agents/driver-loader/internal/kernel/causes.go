package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cause"
)

// peermem is the module that fails with EINVAL, and logs nothing, if it was built without the symbols
// for peer memory (nvidia-peermem.c of NVIDIA's open-gpu-kernel-modules).
const peermem = "nvidia_peermem"

// loadCause returns the cause of an error of finit_module(2). log has the lines of the kernel's log that
// explain the error, or is "".
func loadCause(name string, err error, p policy, log string) cause.Cause {
	c := cause.New(cause.ModuleInitFailed, "module "+name, fmt.Sprintf("its initialization failed (%s)", errno(err)))
	set := func(code cause.Code, text string) { c = cause.New(code, c.Subject, text) }
	switch {
	// Some errors have several meanings, so the log is checked first.
	case strings.Contains(log, "for parameter"):
		set(cause.ModuleParameterInvalid, "the kernel rejects a parameter")
	case strings.Contains(log, "disagrees about version"):
		set(cause.ModuleSymbolMismatch, "it was built for a kernel with other versions of symbols")
	case strings.Contains(log, "does not import it"):
		set(cause.ModuleSymbolMismatch, "it uses a symbol of a namespace that it does not import")
	case strings.Contains(log, "exports duplicate symbol"):
		set(cause.ModuleAlreadyLoaded, "it exports a symbol that a loaded module exports already")
	case strings.Contains(log, "Unknown symbol") || isAny(err, unix.ENOENT) && log == "":
		set(cause.ModuleDependencyMissing, "it needs a symbol that neither the kernel nor a loaded module exports")
	case isAny(err, unix.ENODEV, unix.ENXIO):
		set(cause.ModuleFoundNoDevice, "it found no device that it supports")
	case isAny(err, unix.EEXIST):
		set(cause.ModuleAlreadyLoaded, "a module of this name is loaded")
	case isAny(err, unix.ENOEXEC):
		set(cause.ModuleFormatInvalid, "the kernel does not accept the file as a module")
	case name == peermem && isAny(err, unix.EINVAL) && log == "":
		set(cause.RDMAUnavailable, "it was built without the headers of the network adapters' driver (MOFED or DOCA), and rejects this kernel's ib_core (EINVAL)")
	case isAny(err, unix.EINVAL, unix.ERANGE, unix.ENOSPC) && log == "":
		set(cause.ModuleParameterInvalid, fmt.Sprintf("the kernel or the module rejects a parameter or a symbol's version (%s)", errno(err)))
	case isAny(err, unix.ENOMEM):
		set(cause.ModuleNoMemory, "the kernel is out of memory")
	case isAny(err, unix.ENOSYS):
		set(cause.ModuleNotPermitted, "the kernel cannot load modules: it was built without CONFIG_MODULES")
		c.Fix = "use a kernel that was built with CONFIG_MODULES"
	default:
		p.lockdown = p.lockdown || strings.Contains(log, "Lockdown:")
		rejected(&c, err, p)
	}
	if log != "" {
		c.Text += fmt.Sprintf("; the kernel's log: %q", log)
	}
	return c
}

// rejected sets the cause if a policy of the kernel rejects a module with the error err.
func rejected(c *cause.Cause, err error, p policy) {
	set := func(code cause.Code, text string) { *c = cause.New(code, c.Subject, text) }
	switch {
	case isAny(err, unix.EKEYREJECTED, unix.ENOKEY, unix.EKEYREVOKED, unix.EKEYEXPIRED):
		set(cause.ModuleSignatureRejected, "the kernel loads only modules that are signed by a key that it trusts")
	case isAny(err, unix.EBADMSG, unix.ENOPKG, unix.ELIBBAD):
		set(cause.ModuleSignatureRejected, fmt.Sprintf("the kernel cannot verify its signature (%s)", errno(err)))
		c.Fix = "sign the module again with a hash algorithm that the kernel supports"
	case isAny(err, unix.EPERM) && p.closed:
		set(cause.ModuleNotPermitted, "the kernel loads no more modules: kernel.modules_disabled is 1")
		c.Fix = "remove the setting, and reboot the node"
	case isAny(err, unix.EPERM) && (p.lockdown || p.enforced):
		set(cause.ModuleSignatureRejected, "the kernel is locked down and loads only modules that are signed by a key that it trusts")
	case isAny(err, unix.EPERM):
		set(cause.ModuleNotPermitted, "this process may not load modules")
	case isAny(err, unix.EACCES):
		set(cause.ModuleNotPermitted, "a security module of the kernel denies loading it")
		c.Fix = "allow it in the policy of SELinux, AppArmor, IMA or LoadPin: dmesg and the audit log name it"
	}
}

// unloadCause returns the cause of an error of delete_module(2). Only the name of m is certain.
func unloadCause(m Loaded, err error) cause.Cause {
	c := cause.New(cause.ModuleNotUnloadable, "module "+m.Name, fmt.Sprintf("the kernel does not unload it (%s)", errno(err)))
	set := func(code cause.Code, text string) { c = cause.New(code, c.Subject, text) }
	switch {
	case isAny(err, unix.EAGAIN):
		set(cause.ModuleInUse, describeUse(m))
		if len(m.Holders) > 0 {
			c.Fix = "unload " + strings.Join(m.Holders, ", ") + " first"
		}
	case isAny(err, unix.ENOENT):
		set(cause.ModuleNotLoaded, "it is not loaded, or is built into the kernel")
	case isAny(err, unix.EBUSY) && m.State != "" && m.State != "live":
		set(cause.ModuleInUse, fmt.Sprintf("the kernel is loading or unloading it: its state is %q", m.State))
		c.Fix = "wait; if it stays so, reboot the node"
	case isAny(err, unix.EBUSY):
		c.Text = "the module does not support unloading"
	case isAny(err, unix.EPERM):
		set(cause.ModuleNotPermitted, "this process may not unload modules")
	case isAny(err, unix.ENOSYS):
		c.Text = "the kernel was built without CONFIG_MODULE_UNLOAD"
	}
	return c
}

// describeUse describes the users of a module.
func describeUse(m Loaded) string {
	var parts []string
	if len(m.Holders) > 0 {
		modules := "the loaded modules "
		if len(m.Holders) == 1 {
			modules = "the loaded module "
		}
		parts = append(parts, modules+strings.Join(m.Holders, ", "))
	}
	switch others := m.RefCount - len(m.Holders); {
	case others == 1:
		parts = append(parts, "one open file or other use")
	case others > 1:
		parts = append(parts, fmt.Sprintf("%d open files or other uses", others))
	}
	if len(parts) == 0 {
		return "it is in use"
	}
	return "it is in use by " + strings.Join(parts, " and ")
}

func isAny(err error, numbers ...unix.Errno) bool {
	return slices.ContainsFunc(numbers, func(n unix.Errno) bool { return errors.Is(err, n) })
}

// errno returns the name of a system call's error: "EINVAL".
func errno(err error) string {
	if number, ok := errors.AsType[unix.Errno](err); ok {
		if name := unix.ErrnoName(number); name != "" {
			return name
		}
	}
	return err.Error()
}
