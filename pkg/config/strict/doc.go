// Package strict reads a YAML or JSON document key by key and rejects unknown keys. Every error
// names file, line and key, and all errors are reported at once. The package does not interpret the
// values.
package strict

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"outrigger.dev/pkg/text"
)

const (
	// maxErrors is the number of errors of a document that are reported. A log line has room for
	// this many, and a person fixes them first.
	maxErrors = 20
	// maxText is the longest text of an error in bytes.
	maxText = 400
)

// maxValues is the largest number of values in a document. Aliases can expand a
// short document into a huge one; a config of 112 MIG devices has a few hundred
// values.
const maxValues = 50_000

// Error is one error in a document.
type Error struct {
	File string
	// Line counts from 1; it is 0 for an error in the document as a whole.
	Line int
	// Key is the path to the value, for example "sharing.mps.resources[0].name"; it is
	// empty for an error in the document as a whole.
	Key  string
	Text string
}

// Error returns "file:line: key: text".
func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	if e.Key != "" {
		where += ": " + e.Key
	}
	return where + ": " + e.Text
}

// Doc is a document that is being read, with the errors found so far.
type Doc struct {
	file string
	root *yaml.Node
	// errs has the first maxErrors errors. more counts the other errors.
	errs []*Error
	more int
	// broken says that the document has no values, because its syntax is wrong. Errors about missing
	// values would hide the error in the syntax.
	broken bool
	// values counts the values that were read.
	values int

	warnings
}

// Parse reads a document. file is its name in errors. Err reports errors in the syntax. An empty
// document has no values.
func Parse(file string, data []byte) *Doc {
	d := &Doc{file: file}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return d
	}
	if err != nil {
		d.syntax(err)
		d.broken = true
		return d
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		d.broken = true
		return d
	default:
		d.fail(second.Line, "", "a second document starts here: a file holds one config")
		d.broken = true
		return d
	}
	if len(doc.Content) > 0 {
		d.root = doc.Content[0]
	}
	return d
}

// Root returns the outermost value of the document.
func (d *Doc) Root() Value { return d.value(d.root, "", 1) }

// Err returns the errors so far, sorted by line: at most 20, and the number of the others.
func (d *Doc) Err() error {
	slices.SortStableFunc(d.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(d.errs))
	for i, e := range d.errs {
		errs[i] = e
	}
	if d.more > 0 {
		errs = append(errs, &Error{File: d.file, Text: fmt.Sprintf("%d more errors", d.more)})
	}
	return errors.Join(errs...)
}

func (d *Doc) fail(line int, key, what string) {
	if d.broken {
		return
	}
	if len(d.errs) == maxErrors {
		d.more++
		return
	}
	d.errs = append(d.errs, &Error{File: d.file, Line: line, Key: key, Text: text.Cut(what, maxText)})
}

// syntax records an error of the YAML library: "yaml: line 3: …". The line may be missing.
func (d *Doc) syntax(err error) {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(what, "line "); ok {
		number, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, what = n, after
		}
	}
	d.fail(line, "", "invalid YAML or JSON: "+strings.Join(strings.Fields(what), " ")+": correct the syntax, for example the indentation, quotes or brackets")
}

// value returns the value of a node. line is the line of the node or of the alias that refers to
// it. A null counts as an absent value.
func (d *Doc) value(n *yaml.Node, key string, line int) Value {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return Value{doc: d, key: key, line: line}
	}
	if d.values++; d.values > maxValues {
		if d.values == maxValues+1 {
			d.fail(line, key, fmt.Sprintf("the file has more than %d values", maxValues))
		}
		return Value{doc: d, key: key, line: line}
	}
	return Value{doc: d, node: n, key: key, line: line}
}
