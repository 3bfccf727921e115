// Package cause says why something on a node cannot be done: what is in the way, and what
// an operator does about it. Checks return causes, never a bare error, so that the command
// line, the log, metrics, Events and the status of a node say the same.
package cause

import (
	"errors"
	"strings"
)

// Code is the class of a cause, in the form of a reason of a Kubernetes condition. It is
// the label of metrics and never changes: text does.
type Code string

// Cause is one thing that is in the way.
type Cause struct {
	Code Code `json:"code"`
	// Subject is the thing concerned, such as the module nvidia_uvm or a path.
	Subject string `json:"subject"`
	// Text says what is wrong with it, with the evidence.
	Text string `json:"text"`
	// Fix is what an operator does.
	Fix string `json:"fix,omitempty"`
}

// Error is the cause in one line: "subject: text: fix". So a Cause is an error, which
// errors.As finds.
func (c Cause) Error() string {
	parts := []string{c.Subject, c.Text}
	if c.Fix != "" {
		parts = append(parts, c.Fix)
	}
	return strings.Join(parts, ": ")
}

// Is reports whether an error has a cause with a code.
func Is(err error, code Code) bool {
	c, is := errors.AsType[Cause](err)
	return is && c.Code == code
}

// Errors returns causes as errors.
func Errors(causes []Cause) []error {
	var errs []error
	for _, c := range causes {
		errs = append(errs, c)
	}
	return errs
}
