package cause

import (
	"slices"
	"strings"
)

// Line returns the cause in one line, with its code: "CODE: subject: text: fix". Agents publish causes in
// this form where the code has no other place, such as an annotation. Parse reads it.
func (c Cause) Line() string { return string(c.Code) + ": " + c.Error() }

// Lines returns causes as errors whose texts begin with the code.
func Lines(causes []Cause) []error {
	var errs []error
	for _, c := range causes {
		errs = append(errs, line{c})
	}
	return errs
}

// line is a Cause whose text as an error begins with the code.
type line struct{ Cause }

func (l line) Error() string { return l.Line() }

func (l line) Unwrap() error { return l.Cause }

// Parse returns the causes in a text that an agent has published: each begins a line, or follows "; ", with a
// code of one of the sections of the table. Text has the rest, with the subject. If the rest ends with the fix
// of the table, the fix is in Fix and not in Text.
func Parse(text string, sections ...string) []Cause {
	var found []Cause
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\n", "; "), "; ") {
		word, rest, _ := strings.Cut(strings.TrimSpace(part), ": ")
		row := Code(word).Row()
		switch {
		case rest != "" && row.Section != "" && slices.Contains(sections, row.Section):
			found = append(found, Cause{Code: row.Code, Text: rest})
		case len(found) > 0 && part != "":
			found[len(found)-1].Text += "; " + strings.TrimSpace(part)
		}
	}
	for i, c := range found {
		fix := c.Code.Row().Fix
		if text, is := strings.CutSuffix(c.Text, ": "+fix); is {
			found[i].Text, found[i].Fix = text, fix
		}
	}
	return found
}
