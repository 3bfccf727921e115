// Package check decides whether the kernel accepts a module, and whether the module will use its
// parameters, before the module is loaded. The kernel also loads a module that was built for
// another release, if its symbols match those of the kernel. The kernel ignores unknown parameters.
// All functions are pure.
package check

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// Symbols are the symbols that the kernel and the loaded modules export, with their versions, from
// ParseSymvers and Module.Provides. The version 0 means that the version is not known.
type Symbols map[string]uint32

// Module returns the causes that prevent loading a module with these parameters. If the kernel does
// not show enough for a check, the check is left to the kernel. If symbols is nil, symbols are not
// checked.
func Module(m *module.Module, k kernel.Kernel, params []string, symbols Symbols) []cause.Cause {
	c := checker{module: m, kernel: k}
	c.machine()
	c.vermagic()
	c.symbols(symbols)
	for _, param := range params {
		c.parameter(param)
	}
	c.signature()
	return c.found
}

type checker struct {
	module *module.Module
	kernel kernel.Kernel
	found  []cause.Cause
}

// add records a cause. It does not escape args, because package module makes its texts printable.
func (c *checker) add(code cause.Code, format string, args ...any) {
	c.found = append(c.found, cause.New(code, "module "+c.module.Name, fmt.Sprintf(format, args...)))
}

// addWithFix records a cause with a fix that replaces the fix in the table of causes.
func (c *checker) addWithFix(code cause.Code, fix, format string, args ...any) {
	c.add(code, format, args...)
	c.found[len(c.found)-1].Fix = fix
}

func (c *checker) machine() {
	names := map[elf.Machine]string{
		elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64", elf.EM_PPC64: "ppc64le", elf.EM_RISCV: "riscv64", elf.EM_S390: "s390x",
	}
	if got := names[c.module.Machine]; c.kernel.Machine != "" && got != c.kernel.Machine {
		c.addWithFix(cause.ModuleWrongMachine, "use the driver for "+c.kernel.Machine, "it is built for %s, but the kernel is for %s", got, c.kernel.Machine)
	}
}

// vermagic compares the release and the options of the kernel for which the module was built with the
// running kernel. It skips the options if the options of the running kernel are not known.
func (c *checker) vermagic() {
	release, options, _ := strings.Cut(c.module.Vermagic, " ")
	if release != c.kernel.Release {
		c.add(cause.ModuleWrongRelease, "it was built for the kernel %s, but the running kernel is %s", cmp.Or(release, "no release"), c.kernel.Release)
		return
	}
	_, want, known := strings.Cut(c.kernel.Vermagic, " ")
	if known && !slices.Equal(strings.Fields(options), strings.Fields(want)) {
		c.add(cause.ModuleWrongOptions, "it was built for a kernel with the options %q, but the running kernel has %q", options, want)
	}
}

// maxNames is the largest number of symbols that a cause names.
const maxNames = 3

func (c *checker) symbols(known Symbols) {
	if known == nil {
		return
	}
	var missing, other []string
	for _, name := range c.module.Undefined {
		crc, ok := known[name]
		need, versioned := c.module.Needs[name]
		switch {
		case !ok:
			missing = append(missing, name)
		case versioned && crc != 0 && crc != need:
			other = append(other, name)
		}
	}
	// The version of the kernel's own structures is not the version of an undefined symbol.
	if need, ok := c.module.Needs[layout]; ok && known[layout] != 0 && known[layout] != need {
		other = append(other, layout)
	}
	if len(missing) > 0 {
		c.addWithFix(cause.ModuleDependencyMissing, fixMissing(c.module), "it needs %s, which neither the kernel nor a loaded module exports", firstNames(missing))
	}
	if len(other) > 0 {
		c.addWithFix(cause.ModuleSymbolMismatch, fixExact, "it needs other versions of symbols than the kernel has: %s", firstNames(other))
	}
}

// layout is the symbol that has the version of the kernel's structures for modules.
const layout = "module_layout"

const fixExact = "build the module for this kernel, with the headers of exactly this kernel"

func fixMissing(m *module.Module) string {
	if len(m.Depends) > 0 {
		return "load " + strings.Join(m.Depends, ", ") + " first"
	}
	return fixExact
}

// firstNames joins the first names.
func firstNames(names []string) string {
	out := text.Printable(strings.Join(names[:min(len(names), maxNames)], ", "))
	if more := len(names) - maxNames; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
