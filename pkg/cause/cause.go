// Package cause has one vocabulary for why GPUs cannot be used: what is in the way, and what an
// operator does about it. Checks return causes, never a bare error, so that the command line, the
// log, metrics, Events, conditions and the status of a ClusterPolicy say the same.
//
// The table causes.tsv has a row for each code. Its constant and its documentation come from the
// row: "go generate" writes them.
package cause

import (
	"errors"
	"strings"
)

//go:generate go test -run TestGenerated|TestCodesStay -update .

// Code is the class of a cause. It is the reason of a condition or an Event, or the label of a
// metric, and never changes: text does.
type Code string

// Severity says what to expect of a cause.
type Severity string

// The severities.
const (
	// Starts goes away by itself.
	Starts Severity = "starts"
	// Waits goes away when another part or a person has acted. The agent waits for it.
	Waits Severity = "waits"
	// Fails needs a person.
	Fails Severity = "fails"
)

// Row is a row of the table.
type Row struct {
	Code     Code
	Section  string
	Severity Severity
	// Meaning is a sentence. Fix is what an operator does.
	Meaning, Fix string
}

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

// New returns a Cause with the fix of the table.
func New(code Code, subject, text string) Cause {
	return Cause{Code: code, Subject: subject, Text: text, Fix: code.Row().Fix}
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
