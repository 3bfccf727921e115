package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/cause"
)

// Codes of the causes why the kernel does not load or unload a module.
const (
	// DependencyMissing: neither the kernel nor a loaded module exports a symbol.
	DependencyMissing cause.Code = "ModuleDependencyMissing"
	// SymbolMismatch: a symbol has another version than the module was built for.
	SymbolMismatch cause.Code = "ModuleSymbolMismatch"
	// NoDevice: the module found no device that it supports.
	NoDevice cause.Code = "ModuleFoundNoDevice"
	// InitFailed: the module's own initialization failed.
	InitFailed cause.Code = "ModuleInitFailed"
	// BadParameter: a parameter has a value that it cannot have.
	BadParameter cause.Code = "ModuleParameterInvalid"
	// AlreadyLoaded: a module of that name is loaded.
	AlreadyLoaded cause.Code = "ModuleAlreadyLoaded"
	// NotLoaded: no module of that name is loaded.
	NotLoaded cause.Code = "ModuleNotLoaded"
	// InUse: a module or a process uses the module.
	InUse cause.Code = "ModuleInUse"
	// NotUnloadable: the kernel cannot unload the module.
	NotUnloadable cause.Code = "ModuleNotUnloadable"
	// BadFormat: the kernel does not take the file as a module.
	BadFormat cause.Code = "ModuleFormatInvalid"
	// SignatureRejected: the kernel demands a signature by a key that it knows.
	SignatureRejected cause.Code = "ModuleSignatureRejected"
	// NotPermitted: the process lacks the right, or a policy of the kernel forbids it.
	NotPermitted cause.Code = "ModuleNotPermitted"
	// NoMemory: the kernel has no memory for the module.
	NoMemory cause.Code = "ModuleNoMemory"
)

// FixSignature is what an operator does about a module that lacks a signature by a key
// that the kernel knows.
const FixSignature = "sign the modules with your own key and enrol its certificate: mokutil --import CERTIFICATE.der, reboot, confirm; or use modules that the distribution signed"

const (
	fixDependency = "load the modules that it depends on first"
	fixRebuild    = "build the module again for the running kernel"
	fixParameter  = "correct the parameter: modinfo -p lists names and types"
)

// loadCause is why the kernel does not load a module: what each error of finit_module(2)
// means, with the line of the log that explains it.
func loadCause(name string, err error, p policy, log string) cause.Cause {
	c := cause.Cause{Subject: "module " + name, Code: InitFailed, Text: fmt.Sprintf("its initialization failed (%s)", errno(err)), Fix: "see the kernel's log: dmesg"}
	set := func(code cause.Code, text, fix string) { c.Code, c.Text, c.Fix = code, text, fix }
	switch {
	// Several errors mean more than one thing: the log decides.
	case strings.Contains(log, "for parameter"):
		set(BadParameter, "the kernel rejects a parameter", fixParameter)
	case strings.Contains(log, "disagrees about version"):
		set(SymbolMismatch, "it was built for a kernel with other versions of symbols", fixRebuild)
	case strings.Contains(log, "does not import it"):
		set(SymbolMismatch, "it uses a symbol of a namespace that it does not import", fixRebuild)
	case strings.Contains(log, "exports duplicate symbol"):
		set(AlreadyLoaded, "it exports a symbol that a loaded module exports already", "unload that one first")
	case strings.Contains(log, "Unknown symbol") || isAny(err, unix.ENOENT) && log == "":
		set(DependencyMissing, "it needs a symbol that neither the kernel nor a loaded module exports", fixDependency)
	case isAny(err, unix.ENODEV, unix.ENXIO):
		set(NoDevice, "it found no device that it supports", "check that the node has a GPU that this version and type of the driver supports, and that no other driver is bound to it")
	case isAny(err, unix.EEXIST):
		set(AlreadyLoaded, "a module of this name is loaded", "unload that one first")
	case isAny(err, unix.ENOEXEC):
		set(BadFormat, "the kernel does not take the file as a module for itself", fixRebuild)
	case isAny(err, unix.EINVAL, unix.ERANGE, unix.ENOSPC) && log == "":
		set(BadParameter, fmt.Sprintf("the kernel or the module rejects a parameter or a symbol's version (%s)", errno(err)), fixParameter)
	case isAny(err, unix.ENOMEM):
		set(NoMemory, "the kernel has no memory for it", "free memory of the node, or reboot it")
	case isAny(err, unix.ENOSYS):
		set(NotPermitted, "the kernel takes no modules: it was built without CONFIG_MODULES", "use a kernel with modules, or one that has the driver built in")
	default:
		p.lockdown = p.lockdown || strings.Contains(log, "Lockdown:")
		rejected(&c, err, p)
	}
	if log != "" {
		c.Text += fmt.Sprintf("; the kernel's log: %q", log)
	}
	return c
}

// rejected sets the cause of an error by which a policy of the kernel rejects a module.
func rejected(c *cause.Cause, err error, p policy) {
	set := func(code cause.Code, text, fix string) { c.Code, c.Text, c.Fix = code, text, fix }
	switch {
	case isAny(err, unix.EKEYREJECTED, unix.ENOKEY, unix.EKEYREVOKED, unix.EKEYEXPIRED):
		set(SignatureRejected, "the kernel loads only modules that are signed by a key that it knows", FixSignature)
	case isAny(err, unix.EBADMSG, unix.ENOPKG, unix.ELIBBAD):
		set(SignatureRejected, fmt.Sprintf("the kernel cannot verify its signature (%s)", errno(err)), "sign the module again, with a hash algorithm that the kernel has")
	case isAny(err, unix.EPERM) && p.closed:
		set(NotPermitted, "the kernel takes no more modules: kernel.modules_disabled is 1", "reboot the node, without the setting")
	case isAny(err, unix.EPERM) && (p.lockdown || p.enforced):
		set(SignatureRejected, "the kernel is locked down and loads only modules that are signed by a key that it knows", FixSignature)
	case isAny(err, unix.EPERM):
		set(NotPermitted, "this process may not load modules", "run it as root with the capability CAP_SYS_MODULE, as a privileged container")
	case isAny(err, unix.EACCES):
		set(NotPermitted, "a security module of the kernel forbids to load it", "allow it in the policy of SELinux, AppArmor, IMA or LoadPin: dmesg and the audit log name it")
	}
}

// unloadCause is why the kernel does not unload a module. Only the name of m is certain.
func unloadCause(m Loaded, err error) cause.Cause {
	c := cause.Cause{Subject: "module " + m.Name, Code: NotUnloadable, Text: fmt.Sprintf("the kernel does not unload it (%s)", errno(err)), Fix: "reboot the node"}
	switch {
	case isAny(err, unix.EAGAIN):
		c.Code, c.Text, c.Fix = InUse, use(m), "stop what uses it"
		if len(m.Holders) > 0 {
			c.Fix = "unload " + strings.Join(m.Holders, ", ") + " first"
		}
	case isAny(err, unix.ENOENT):
		c.Code, c.Text, c.Fix = NotLoaded, "it is not loaded, or is built into the kernel", ""
	case isAny(err, unix.EBUSY) && m.State != "" && m.State != "live":
		c.Code, c.Text, c.Fix = InUse, fmt.Sprintf("the kernel is loading or unloading it: its state is %q", m.State), "wait; if it stays so, reboot the node"
	case isAny(err, unix.EBUSY):
		c.Text = "the module was made without a way to unload it"
	case isAny(err, unix.EPERM):
		c.Code, c.Text, c.Fix = NotPermitted, "this process may not unload modules", "run it as root with the capability CAP_SYS_MODULE, as a privileged container"
	case isAny(err, unix.ENOSYS):
		c.Text = "the kernel was built without CONFIG_MODULE_UNLOAD"
	}
	return c
}

// use says what uses a module.
func use(m Loaded) string {
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

// errno names an error of a system call: "EINVAL".
func errno(err error) string {
	if number, ok := errors.AsType[unix.Errno](err); ok {
		if name := unix.ErrnoName(number); name != "" {
			return name
		}
	}
	return err.Error()
}
