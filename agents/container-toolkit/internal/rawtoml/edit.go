package rawtoml

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// The marks. A line that ends with addedMark was added. A line with changedMark has a changed
// value, and the old value follows the mark. The lines between blockBegin and blockEnd were added.
const (
	addedMark   = " # nvidia-container-toolkit"
	changedMark = addedMark + ": was "
	blockBegin  = "# >>> nvidia-container-toolkit (remove with: nvidia-ctk runtime unconfigure)"
	blockEnd    = "# <<< nvidia-container-toolkit"
)

// Set sets the key at path to the value, which is TOML text on one line. If the key is missing,
// Set adds it next to its siblings, or in a new table at the end.
func Set(text []byte, path []string, value string) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if e := d.find(path); e != nil {
		return d.replace(e, value)
	}
	if out, err := d.add(path, value+addedMark); out != nil || err != nil {
		return out, err
	}
	table, key := path[:len(path)-1], path[len(path)-1:]
	return appendBlock(text, "["+Key(table)+"]\n"+Key(key)+" = "+value+"\n"), nil
}

// Insert adds a missing key as Set does, but without marks. The result ends in a line break.
func Insert(text []byte, path []string, value string) ([]byte, error) {
	if len(text) > 0 && lineBreak(text) == "" {
		text = slices.Concat(text, []byte("\n"))
	}
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if out, err := d.add(path, value); out != nil || err != nil {
		return out, err
	}
	table, key := path[:len(path)-1], path[len(path)-1:]
	return insertLine(text, len(text), "\n["+Key(table)+"]\n"+Key(key)+" = "+value), nil
}

// add adds a missing key next to its siblings. It returns nil if the table does not exist.
func (d *Doc) add(path []string, value string) ([]byte, error) {
	if err := d.blocker(path); err != nil {
		return nil, err
	}
	at, indent, key := d.place(path[:len(path)-1], path)
	if at < 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	return insertLine(d.text, at, indent+key+" = "+value), nil
}

// Remove removes the lines of a key. It does nothing if the key is missing.
func Remove(text []byte, path []string) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	e := d.find(path)
	if e == nil {
		return text, nil
	}
	return cutLines(text, e.start, e.end), nil
}

// place returns the offset for a line with a new key, its indentation, and the key as it is
// written there. The offset is -1 if the table does not exist.
func (d *Doc) place(table, path []string) (at int, indent, key string) {
	at = -1
	if len(table) == 0 {
		at = 0
	}
	for i, e := range d.entries {
		inTable := !e.header && slices.Equal(e.table, table) && len(e.path) == len(path)
		switch {
		case len(table) == 0 && !e.header && len(e.table) == 0, inTable:
			at, indent, key = e.end, d.indent(e), Key(path[len(e.table):])
		case e.header && slices.Equal(e.path, table):
			at, indent, key = e.end, d.indent(e), Key(path[len(table):])
			if i+1 < len(d.entries) && !d.entries[i+1].header {
				indent = d.indent(d.entries[i+1])
			}
		case !e.header && len(e.table) < len(table) && len(e.path) > len(table) && slices.Equal(e.path[:len(table)], table):
			// The table consists of dotted keys, so a header must not name it.
			at, indent, key = e.end, d.indent(e), Key(path[len(e.table):])
		}
	}
	if key == "" {
		key = Key(path)
	}
	return at, indent, key
}

// indent returns the white space before an entry.
func (d *Doc) indent(e entry) string {
	line := d.text[e.start:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// replace sets a key to another value, and appends the old value to the line as a comment.
func (d *Doc) replace(e *entry, value string) ([]byte, error) {
	old := string(d.text[e.value:e.valueEnd])
	if old == value {
		return d.text, nil
	}
	if strings.ContainsAny(old, "\r\n") {
		return nil, fmt.Errorf("line %d: the value of %s has several lines: write it on one line", d.lineNumber(e.start), Key(e.path))
	}
	eol := e.end - len(lineBreak(d.text[:e.end]))
	return slices.Concat(d.text[:e.value], []byte(value), d.text[e.valueEnd:eol], []byte(changedMark+old), d.text[eol:]), nil
}

// lineBreak returns the line break at the end of text, or "".
func lineBreak(text []byte) string {
	switch {
	case bytes.HasSuffix(text, []byte("\r\n")):
		return "\r\n"
	case bytes.HasSuffix(text, []byte("\n")):
		return "\n"
	default:
		return ""
	}
}

// insertLine inserts a line before the line at an offset, or after the last line. If the last
// line has no line break, the new last line has none either.
func insertLine(text []byte, at int, line string) []byte {
	if at == len(text) && at > 0 && text[at-1] != '\n' {
		return slices.Concat(text, []byte("\n"+line))
	}
	return slices.Concat(text[:at], []byte(line+"\n"), text[at:])
}

// AddTables adds tables at the end. The document must not have the tables yet.
func AddTables(text []byte, tables ...Table) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, t := range tables {
		if err := d.blocker(append(slices.Clone(t.Path), "")); err != nil {
			return nil, err
		}
		if err := t.write(&b); err != nil {
			return nil, err
		}
	}
	out := appendBlock(text, b.String())
	_, err = Parse(out)
	return out, err
}

// appendBlock adds text between marks at the end, or to an existing block at the end.
func appendBlock(text []byte, block string) []byte {
	tail := "\n" + blockEnd
	if trimmed := bytes.TrimSuffix(text, []byte("\n")); bytes.HasSuffix(trimmed, []byte(tail)) {
		at := len(trimmed) - len(tail) + 1
		return slices.Concat(text[:at], []byte(block), text[at:])
	}
	return insertLine(text, len(text), blockBegin+"\n"+block+blockEnd)
}

// Table is a table with all values and tables below it. The values have the types that the
// TOML decoder returns.
type Table struct {
	Path   []string
	Values map[string]any
}

func (t Table) write(b *strings.Builder) error {
	fmt.Fprintf(b, "[%s]\n", Key(t.Path))
	var tables []string
	for _, k := range sortedKeys(t.Values) {
		if _, ok := t.Values[k].(map[string]any); ok {
			tables = append(tables, k)
			continue
		}
		v, err := Value(t.Values[k])
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s = %s\n", Key([]string{k}), v)
	}
	for _, k := range tables {
		sub := Table{Path: append(slices.Clone(t.Path), k), Values: t.Values[k].(map[string]any)}
		if err := sub.write(b); err != nil {
			return err
		}
	}
	return nil
}

// AddToList appends a string to the array of strings at path. It adds a missing array. It does
// nothing if the array has the string already.
func AddToList(text []byte, path []string, value string) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	e := d.find(path)
	if e == nil {
		return Set(text, path, "["+String(value)+"]")
	}
	if e.kind != unstable.Array {
		return nil, fmt.Errorf("line %d: %s is not a list", d.lineNumber(e.start), Key(path))
	}
	at, add := e.value+1, String(value)
	for _, el := range e.elements {
		if el.text == value {
			return text, nil
		}
		at, add = el.end, ", "+String(value)
	}
	return slices.Concat(text[:at], []byte(add), text[at:]), nil
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
