// Package cause has one vocabulary for the reasons why GPUs cannot be used: the problem, and the
// fix by an operator. Checks return causes, never a bare error, so that the command line, the log,
// metrics, Events, conditions and the status of a ClusterPolicy agree.
//
// The table causes.tsv has a row for each code. "go generate" writes the constant and its
// documentation from the row.
package cause

import (
	"errors"
	"strings"
)

//go:generate go test -run TestGenerated|TestCodesStay -update .

// Code is the class of a cause. It is the reason of a condition or an Event, or the label of a
// metric. A code never changes, but its text may.
type Code string

// Severity says how a cause goes away.
type Severity string

// The severities.
const (
	// Starts is a cause that ends by itself.
	Starts Severity = "starts"
	// Waits is a cause that ends when another program or a person has acted. The agent waits until
	// then.
	Waits Severity = "waits"
	// Fails is a cause that ends only when a person has acted.
	Fails Severity = "fails"
)

// Row is a row of the table.
type Row struct {
	Code     Code
	Section  string
	Severity Severity
	// Meaning is a sentence. Fix describes the action of an operator.
	Meaning, Fix string
}

// Cause is one problem.
type Cause struct {
	Code Code `json:"code"`
	// Subject is the object with the problem, such as the module nvidia_uvm or a path.
	Subject string `json:"subject"`
	// Text describes the problem, with the evidence.
	Text string `json:"text"`
	// Fix describes the action of an operator.
	Fix string `json:"fix,omitempty"`
}

// New returns a Cause with the fix from the table.
func New(code Code, subject, text string) Cause {
	return Cause{Code: code, Subject: subject, Text: text, Fix: code.Row().Fix}
}

// Error returns the cause in one line: "subject: text: fix". Because a Cause is an error, errors.As
// finds it.
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
