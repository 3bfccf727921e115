// Package preflight says in advance whether the driver of a node can be built and loaded:
// one check for each thing that is known to be in the way on some nodes, with what it has
// found. It changes nothing, and needs no rights: what it may not read, it says.
package preflight

import (
	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
)

// State is the result of a check.
type State string

// The states, from good to bad.
const (
	OK State = "ok"
	// Note is something that an operator may want to know, and that is in the way of nothing.
	Note State = "note"
	// Problem keeps the driver from being built or loaded.
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

// Verdict is all that is known about the next change of a node's driver.
type Verdict struct {
	Checks []Check `json:"checks"`
	// Next is the step that the agent would take now.
	Next loader.Step `json:"next"`
}

// Problems returns the causes of all checks that found a problem, and of the next step.
func (v Verdict) Problems() []cause.Cause {
	var out []cause.Cause
	for _, c := range v.Checks {
		if c.Cause != nil {
			out = append(out, *c.Cause)
		}
	}
	for _, c := range v.Next.Causes {
		if !containsCause(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func containsCause(list []cause.Cause, c cause.Cause) bool {
	for _, other := range list {
		if other.Code == c.Code && other.Subject == c.Subject {
			return true
		}
	}
	return false
}

// Facts is what the checks read in addition to the loader's observation.
type Facts struct {
	// Headers is the folder of the kernel's headers, or HeadersErr why there is none.
	Headers    string
	HeadersErr error
	// Repositories is the program that would fetch headers, "" for none.
	Repositories string
	// Compiler is the first line of the compiler for this kernel, or CompilerErr why there
	// is none.
	Compiler    string
	CompilerErr error
	// Signer is set if modules are signed with a key of the user.
	Signer bool
	// Free is how many bytes the store's file system has, or FreeErr why that is not known.
	Free    uint64
	FreeErr error
	// Parts are the modules of the kernel that the driver uses, and where each is: "loaded",
	// "built in", "installed", or "" for nowhere.
	Parts map[string]string
	// Licensed is set if a license of virtual GPUs is configured. Products are then what has
	// one, or LicenseErr is why that is not known.
	Licensed   bool
	Products   []license.Product
	LicenseErr error
	// Holders use the loaded driver. HoldersErr says which processes could not be examined.
	Holders    []holders.Holder
	HoldersErr error
}
