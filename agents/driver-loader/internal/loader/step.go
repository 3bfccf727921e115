package loader

import (
	"fmt"
	"strings"

	"outrigger.dev/pkg/cause"
)

// Kind is what a step does.
type Kind string

// The kinds of steps.
const (
	// Import copies a driver into the store. Next never returns it: see Loader.Import.
	Import Kind = "import"
	// Build builds the modules of Driver into the cache.
	Build Kind = "build"
	// Show mounts the driver root of Driver at its place, and sets the firmware's folder.
	Show Kind = "show"
	// Load loads those of Modules that are not loaded.
	Load Kind = "load"
	// Begin writes the journal of a change from the loaded driver to Driver.
	Begin Kind = "begin"
	// Claim withdraws the fact driver-ready, and asks all agents to close their handles of NVML.
	Claim Kind = "claim"
	// Unload unloads Modules, in this order: those of the loaded driver, or of another one for the
	// GPUs that nothing uses, such as nouveau.
	Unload Kind = "unload"
	// Rehearse checks the modules of Driver as before a load, while another driver works.
	Rehearse Kind = "rehearse"
	// Nodes makes device nodes and links.
	Nodes Kind = "nodes"
	// Start starts the daemons of the driver.
	Start Kind = "start"
	// Validate checks that the driver works.
	Validate Kind = "validate"
	// Finish removes the journal.
	Finish Kind = "finish"
	// Publish writes the fact driver-ready.
	Publish Kind = "publish"
	// Wait does nothing, because of Causes.
	Wait Kind = "wait"
	// Done does nothing: the node is as desired.
	Done Kind = "done"
)

// Step is one change of the node.
type Step struct {
	Kind Kind `json:"kind"`
	// Driver is the one that the step is about.
	Driver Driver `json:"driver,omitzero"`
	// Modules are those to load or unload.
	Modules []string `json:"modules,omitempty"`
	// Causes are why the node is not as desired. A step that is Done has them if a change of
	// the driver has failed, so that the one before is loaded.
	Causes []cause.Cause `json:"causes,omitempty"`
	// Users is set if the step waits for processes that are known: to look at them again
	// disturbs nobody.
	Users bool `json:"-"`

	// ahead is set if the node works meanwhile: the step prepares another driver.
	ahead bool
}

// String says what the step does.
func (s Step) String() string {
	of := "driver " + s.Driver.Version
	switch s.Kind {
	case Import:
		return "copy the driver into the store"
	case Build:
		return fmt.Sprintf("build the %s modules of %s", s.Driver.Flavour, of)
	case Show:
		return "show the root of " + of
	case Load:
		return "load " + of + ": " + strings.Join(s.Modules, ", ")
	case Begin:
		return "note in the journal that " + of + " is to be loaded"
	case Claim:
		return "ask all agents to close their handles of NVML"
	case Unload:
		return "unload " + strings.Join(s.Modules, ", ")
	case Rehearse:
		return "check the modules of " + of + " as before a load"
	case Nodes:
		return "make device nodes and links"
	case Start:
		return "start the daemons of " + of
	case Validate:
		return "check that " + of + " works"
	case Finish:
		return "remove the journal: " + of + " works"
	case Publish:
		return "publish that " + of + " is ready"
	case Wait:
		return "wait"
	case Done:
		return of + " is ready"
	}
	return string(s.Kind)
}
