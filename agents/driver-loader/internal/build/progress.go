// Package build makes kernel modules from NVIDIA's sources: it finds or fetches the
// headers of a kernel, chooses the compiler that the kernel was built with, runs make, and
// signs the result.
package build

import (
	"fmt"
	"time"
)

// Step is a step of a build.
type Step string

// The steps, in their order.
const (
	StepHeaders Step = "headers"
	StepSources Step = "sources"
	StepCompile Step = "compile"
	StepSign    Step = "sign"
	StepStore   Step = "store"
)

// Progress is where a build is.
type Progress struct {
	Step Step `json:"step"`
	// Done and Total count the objects that are compiled. Total is an estimate until the
	// end; 0 if it is not known.
	Done  int `json:"done,omitempty"`
	Total int `json:"total,omitempty"`
	// Elapsed is the time since the build began.
	Elapsed time.Duration `json:"elapsed"`
	// Note names what is worked on, such as a package that is fetched.
	Note string `json:"note,omitempty"`
}

// String is the progress in a few words: "compile 12/80, 35s".
func (p Progress) String() string {
	text := string(p.Step)
	if p.Total > 0 {
		text += fmt.Sprintf(" %d/%d", p.Done, p.Total)
	}
	if p.Note != "" {
		text += " " + p.Note
	}
	return text + ", " + p.Elapsed.Round(time.Second).String()
}
