// Package preflight reports in advance whether the driver of a node can be built and loaded. It has one
// check for each known problem. It does not change the node, and needs no privileges: if it cannot read
// something, it says so.
package preflight

import (
	"slices"

	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
)

// State is the result of a check.
type State string

// The states, from best to worst.
const (
	OK State = "ok"
	// Note is information for operators that does not prevent loading the driver.
	Note State = "note"
	// Problem prevents building or loading the driver.
	Problem State = "problem"
)

// Check is the result of one check.
type Check struct {
	// Name is the subject: "gpu", "headers".
	Name  string `json:"name"`
	State State  `json:"state"`
	Text  string `json:"text"`
	// Cause is set for a problem.
	Cause *cause.Cause `json:"cause,omitempty"`
}

// Verdict is the result of all checks.
type Verdict struct {
	Checks []Check `json:"checks"`
	// Next is the step that the agent would perform now.
	Next loader.Step `json:"next"`
}

// Problems returns the causes of all failed checks, and of the next step.
func (v Verdict) Problems() []cause.Cause {
	var out []cause.Cause
	for _, c := range v.Checks {
		if c.Cause != nil {
			out = append(out, *c.Cause)
		}
	}
	for _, c := range v.Next.Causes {
		if !slices.ContainsFunc(out, func(o cause.Cause) bool { return o.Code == c.Code && o.Subject == c.Subject }) {
			out = append(out, c)
		}
	}
	return out
}

// Facts holds the observations that the loader does not make.
type Facts struct {
	// Headers is the folder of the kernel's headers. HeadersErr says why they are missing.
	Headers    string
	HeadersErr error
	// Repositories is the program that would fetch headers, or "".
	Repositories string
	// Compiler is the first line that the compiler for this kernel prints about itself. CompilerErr
	// says why it is missing.
	Compiler    string
	CompilerErr error
	// NextKernel describes the modules for a new kernel.
	NextKernel loader.NextKernel
	// Signer is set if modules are signed with the user's key.
	Signer bool
	// Free is the free space of the store's file system, in bytes. FreeErr says why it is not known.
	Free    uint64
	FreeErr error
	// Parts has the state of each module in loader.Prerequisites: "loaded", "built in", "installed; the
	// agent loads it before the driver", or "" for a missing module.
	Parts map[string]string
	// Licensed is set if a license for virtual GPUs is configured. Products then has the state of each
	// license. LicenseErr says why it is not known.
	Licensed   bool
	Products   []license.Product
	LicenseErr error
	// Holders use the loaded driver. HoldersErr says which processes could not be examined.
	Holders    []holders.Holder
	HoldersErr error
}
