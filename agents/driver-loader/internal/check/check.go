// Package check decides before a module is loaded whether the kernel will take it, and
// whether it will do what is asked of it. The kernel itself loads a module for another
// release if their symbols agree, and ignores parameters that it does not know. All
// functions are pure.
package check

import "outrigger.dev/agents/driver-loader/internal/cause"

// Codes of the causes that Module returns. It also returns some of package kernel.
const (
	// WrongMachine: the module is for another processor.
	WrongMachine cause.Code = "ModuleWrongMachine"
	// WrongRelease: the module is for another release of the kernel.
	WrongRelease cause.Code = "ModuleWrongRelease"
	// WrongOptions: the module is for a kernel with other options.
	WrongOptions cause.Code = "ModuleWrongOptions"
	// UnknownParameter: the module does not have the parameter.
	UnknownParameter cause.Code = "ModuleParameterUnknown"
	// Unsigned: the kernel demands a signature, and the module has none.
	Unsigned cause.Code = "ModuleUnsigned"
	// UnknownKey: the kernel demands a signature by a key that it knows, and does not know that of the module.
	UnknownKey cause.Code = "ModuleKeyUnknown"
)

// Symbols are the symbols that the kernel and the modules loaded before export, with their
// versions: those of Module.symvers, and of Module.Provides. Nil means that they are not known.
type Symbols map[string]uint32
