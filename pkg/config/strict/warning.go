package strict

import (
	"cmp"
	"fmt"
	"slices"
)

// maxWarnings is the number of warnings of a document that are kept, so that a log line has
// room for them.
const maxWarnings = 20

// warnings has the first maxWarnings warnings. more counts the other warnings.
type warnings struct {
	warned []*Error
	more   int
}

// Warn reports that the value is accepted but does not have its full effect.
func (v Value) Warn(format string, args ...any) {
	d := v.doc
	if len(d.warned) == maxWarnings {
		d.warnings.more++
		return
	}
	d.warned = append(d.warned, &Error{File: d.file, Line: v.line, Key: v.key, Text: fmt.Sprintf(format, args...)})
}

// Warnings returns the warnings so far, sorted by line: at most 20, and the number of the others.
func (d *Doc) Warnings() []string {
	slices.SortStableFunc(d.warned, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	var out []string
	for _, w := range d.warned {
		out = append(out, w.Error())
	}
	if d.warnings.more > 0 {
		out = append(out, fmt.Sprintf("%s: %d more warnings", d.file, d.warnings.more))
	}
	return out
}
