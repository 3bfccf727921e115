// Package rawtoml edits TOML documents as text. All other bytes, comments and the order stay
// the same. Set and AddTables leave a mark in the text for each change. Strip finds the marks and
// reverts the changes without the original document.
package rawtoml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Doc is a TOML document with the places of its keys.
type Doc struct {
	text    []byte
	entries []entry
}

// entry is a table header or a key with its value.
type entry struct {
	// path is the full path of the table or key.
	path []string
	// table is the path of the table of a key, from the header of the table.
	table  []string
	header bool
	// start and end are the offsets of the entry's lines, including the line break.
	start, end int
	// value and valueEnd are the offsets of a key's value.
	value, valueEnd int
	kind            unstable.Kind
	// elements are the strings of an array, in order.
	elements []element
}

// element is a string in an array.
type element struct {
	text       string
	start, end int
}

// Parse reads a document. It rejects invalid TOML, including keys and tables that are defined
// twice.
func Parse(text []byte) (*Doc, error) {
	var whole map[string]any
	if err := toml.Unmarshal(text, &whole); err != nil {
		return nil, withLineNumber(err)
	}
	d := &Doc{text: text}
	p := unstable.Parser{}
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		n := p.Expression()
		e := d.read(&p, n, table)
		if e.header {
			table = e.path
		}
		d.entries = append(d.entries, e)
	}
	return d, p.Error()
}

// withLineNumber adds the line number to an error of the decoder.
func withLineNumber(err error) error {
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := decode.Position()
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// read returns the entry of an expression below table.
func (d *Doc) read(p *unstable.Parser, n *unstable.Node, table []string) entry {
	e := entry{header: n.Kind != unstable.KeyValue}
	if !e.header {
		e.table = table
		e.path = slices.Clone(table)
	}
	var first, last unstable.Range
	for keys := n.Key(); keys.Next(); {
		last = keys.Node().Raw
		if first.Length == 0 {
			first = last
		}
		e.path = append(e.path, string(keys.Node().Data))
	}
	if n.Kind == unstable.ArrayTable {
		// Callers do not look up paths in the elements of an array.
		e.path = append(e.path, "[[]]")
	}
	e.start = bytes.LastIndexByte(d.text[:first.Offset], '\n') + 1
	stop := int(last.Offset + last.Length)
	if !e.header {
		e.value = stop + bytes.IndexByte(d.text[stop:], '=') + 1
		e.value += len(d.text[e.value:]) - len(bytes.TrimLeft(d.text[e.value:], " \t"))
		e.valueEnd = int(n.Raw.Offset + n.Raw.Length)
		stop = e.valueEnd
		e.kind = n.Value().Kind
		e.elements = elements(p, n.Value())
	}
	e.end = lineEnd(d.text, stop)
	return e
}

// elements returns the strings of an array, or nil for other values.
func elements(p *unstable.Parser, n *unstable.Node) []element {
	if n.Kind != unstable.Array {
		return nil
	}
	var out []element
	for items := n.Children(); items.Next(); {
		if item := items.Node(); item.Kind == unstable.String {
			start := int(item.Raw.Offset)
			out = append(out, element{text: string(item.Data), start: start, end: start + len(p.Raw(item.Raw))})
		}
	}
	return out
}

// lineEnd returns the offset after the line that contains the offset at.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// find returns the entry of a key, or nil.
func (d *Doc) find(path []string) *entry {
	for i := range d.entries {
		if e := &d.entries[i]; !e.header && slices.Equal(e.path, path) {
			return e
		}
	}
	return nil
}

// blocker returns an error if a key above path has a value, such as an inline table, which
// other lines cannot extend.
func (d *Doc) blocker(path []string) error {
	for _, e := range d.entries {
		if !e.header && len(e.path) < len(path) && slices.Equal(e.path, path[:len(e.path)]) {
			return fmt.Errorf("line %d: %s is an inline table, which cannot be extended: write it as [%s]",
				d.lineNumber(e.start), Key(e.path), Key(e.path))
		}
	}
	return nil
}

// lineNumber returns the number of the line at an offset.
func (d *Doc) lineNumber(at int) int { return bytes.Count(d.text[:at], []byte("\n")) + 1 }

// Key returns a path as a dotted key.
func Key(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		parts[i] = p
		if strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || p == "" {
			parts[i] = String(p)
		}
	}
	return strings.Join(parts, ".")
}

// String returns s as a basic string of TOML.
func String(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Value returns v as TOML text on one line. v has a type that the TOML decoder returns.
func Value(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return String(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case []string:
		return list(v)
	case []any:
		return list(v)
	case map[string]any:
		return inline(v)
	default:
		text, err := toml.Marshal(map[string]any{"v": v})
		if err != nil {
			return "", err
		}
		return strings.TrimPrefix(strings.TrimSpace(string(text)), "v = "), nil
	}
}

func list[T any](values []T) (string, error) {
	parts := make([]string, len(values))
	for i, v := range values {
		var err error
		if parts[i], err = Value(v); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(parts, ", ") + "]", nil
}

func inline(table map[string]any) (string, error) {
	parts := make([]string, 0, len(table))
	for _, k := range sortedKeys(table) {
		v, err := Value(table[k])
		if err != nil {
			return "", err
		}
		parts = append(parts, Key([]string{k})+" = "+v)
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}
