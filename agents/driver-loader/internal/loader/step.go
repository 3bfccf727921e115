package loader

import (
	"fmt"
	"strings"

	"outrigger.dev/pkg/cause"
)

// Kind is the kind of a step.
type Kind string

// The kinds of steps.
const (
	// Import copies a driver into the store. Only Loader.Import uses it.
	Import Kind = "import"
	// Build builds the modules of Driver into the cache.
	Build Kind = "build"
	// Show mounts the root of Driver at its place, and sets the kernel's firmware folder.
	Show Kind = "show"
	// Load loads those Modules that are not loaded.
	Load Kind = "load"
	// Begin records in the journal that the loaded driver is replaced by Driver.
	Begin Kind = "begin"
	// Claim removes the fact driver-ready, and asks all agents to close their handles of NVML.
	Claim Kind = "claim"
	// Unload unloads Modules in this order. They belong to the loaded driver, or to another unused
	// driver for the GPUs, such as nouveau.
	Unload Kind = "unload"
	// Rehearse makes the checks of Load for the modules of Driver, while another driver is loaded.
	Rehearse Kind = "rehearse"
	// Nodes creates device nodes and links.
	Nodes Kind = "nodes"
	// Start starts the daemons of the driver.
	Start Kind = "start"
	// Validate checks that the driver works.
	Validate Kind = "validate"
	// Finish removes the change from the journal.
	Finish Kind = "finish"
	// Publish writes the fact driver-ready.
	Publish Kind = "publish"
	// Wait does nothing, because of Causes.
	Wait Kind = "wait"
	// Done does nothing, because the node is in the desired state.
	Done Kind = "done"
)

// Step is a change of the node.
type Step struct {
	Kind Kind `json:"kind"`
	// Driver is the driver of the step.
	Driver Driver `json:"driver,omitzero"`
	// Modules are the modules to load or unload.
	Modules []string `json:"modules,omitempty"`
	// Causes are the reasons why the node is not in the desired state. The kind Done has Causes if
	// the loader has rolled back a change of the driver.
	Causes []cause.Cause `json:"causes,omitempty"`
	// Optional has the states of the selected optional modules, while the driver works.
	Optional []OptionalModule `json:"optional,omitempty"`
	// Users is set if the step waits for known processes. The node can then be observed often,
	// because no agent has to close its handles.
	Users bool `json:"-"`

	// ahead is set if the step prepares another driver while the loaded one works.
	ahead bool
	// optional is the optional module that the step loads while the driver works, or "".
	optional string
}

// String describes the step.
func (s Step) String() string {
	of := "driver " + s.Driver.Version
	switch s.Kind {
	case Import:
		return "copy the driver into the store"
	case Build:
		return fmt.Sprintf("build the %s modules of %s", s.Driver.Flavour, of)
	case Show:
		return "mount the root of " + of
	case Load:
		return "load " + of + ": " + strings.Join(s.Modules, ", ")
	case Begin:
		return "record the change to " + of + " in the journal"
	case Claim:
		return "ask all agents to close their handles of NVML"
	case Unload:
		return "unload " + strings.Join(s.Modules, ", ")
	case Rehearse:
		return "check the modules of " + of + " without loading them"
	case Nodes:
		return "create device nodes and links"
	case Start:
		return "start the daemons of " + of
	case Validate:
		return "validate " + of
	case Finish:
		return "remove the change to " + of + " from the journal"
	case Publish:
		return "publish the fact that " + of + " is ready"
	case Wait:
		return "wait"
	case Done:
		return of + " is ready"
	}
	return string(s.Kind)
}
