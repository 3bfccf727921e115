package strict

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one value of a document, or the place of an absent value. Its methods report errors to
// the Doc. For an absent value, they return nothing and report nothing.
type Value struct {
	doc  *Doc
	node *yaml.Node
	key  string
	// line is the line of the key or the entry. For an absent value, it is the line of the mapping
	// or list that should contain it.
	line int
}

// Set reports whether the value is present and not null.
func (v Value) Set() bool { return v.node != nil }

// Line returns the line of the key or the entry. For an absent value, it returns the line of the
// mapping or list that should contain it.
func (v Value) Line() int { return v.line }

// Key returns the path of the value.
func (v Value) Key() string { return v.key }

// Fail reports an error in the value.
func (v Value) Fail(format string, args ...any) {
	v.doc.fail(v.line, v.key, fmt.Sprintf(format, args...))
}

// Bad reports an invalid value. The parameter allowed describes the valid values.
func (v Value) Bad(allowed string) {
	v.Fail("invalid value %s: must be %s", v.written(), allowed)
}

// Missing reports an absent value that is required. The parameter allowed describes the valid values.
func (v Value) Missing(allowed string) { v.Fail("is missing: must be %s", allowed) }

// Require reports an error unless the value is this word.
func (v Value) Require(word string) {
	if !v.Set() {
		v.Missing(word)
	} else if is, ok := v.Text(); ok && is != word {
		v.Bad(word)
	}
}

const maxShown = 60

// written returns the value as an error shows it.
func (v Value) written() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "(a mapping)"
	case yaml.SequenceNode:
		return "(a list)"
	default:
		return quote(v.node.Value)
	}
}

// quote returns a text as one line of bounded length.
func quote(s string) string {
	text := []rune(s)
	if len(text) > maxShown {
		return fmt.Sprintf("%q…", string(text[:maxShown]))
	}
	return fmt.Sprintf("%q", s)
}

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.Set() && v.node.Kind == yaml.SequenceNode }

// IsMap reports whether the value is a mapping.
func (v Value) IsMap() bool { return v.Set() && v.node.Kind == yaml.MappingNode }

// IsText reports whether the value is a text, and not a number or a boolean.
func (v Value) IsText() bool {
	return v.Set() && v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str"
}

// Text returns the text of a value that is one word or number.
func (v Value) Text() (string, bool) {
	if !v.Set() {
		return "", false
	}
	if v.node.Kind != yaml.ScalarNode {
		v.Bad("a text")
		return "", false
	}
	return v.node.Value, true
}

// Bool returns a value that is true or false. It also accepts the other words of YAML 1.1, such as yes
// and off. It rejects a text in quotes.
func (v Value) Bool() (value, ok bool) {
	if !v.Set() {
		return false, false
	}
	plain := v.node.Style == 0
	if v.node.Kind == yaml.ScalarNode && (plain || v.node.ShortTag() == "!!bool") {
		switch strings.ToLower(v.node.Value) {
		case "true", "yes", "on", "y":
			return true, true
		case "false", "no", "off", "n":
			return false, true
		}
	}
	v.Bad("true or false")
	return false, false
}

// Int returns a value that is an integer from low to high. It rejects leading zeros, because YAML
// would read 010 as 8. If high is math.MaxInt, there is no upper limit. Helm writes an integer of a
// million or more as 1e+06.
func (v Value) Int(low, high int) (int, bool) {
	if !v.Set() {
		return 0, false
	}
	n, ok := v.integer()
	if !ok || n < low || n > high {
		allowed := fmt.Sprintf("an integer from %d to %d", low, high)
		if high == math.MaxInt {
			allowed = fmt.Sprintf("an integer of at least %d", low)
		}
		v.Bad(allowed)
		return 0, false
	}
	return n, true
}

// integer reads a number without a fraction.
func (v Value) integer() (int, bool) {
	if v.node.Kind != yaml.ScalarNode {
		return 0, false
	}
	switch v.node.ShortTag() {
	case "!!int":
		n, err := strconv.Atoi(v.node.Value)
		return n, err == nil && strconv.Itoa(n) == v.node.Value
	case "!!float":
		const exact = 1 << 53
		f, err := strconv.ParseFloat(v.node.Value, 64)
		return int(f), err == nil && f == math.Trunc(f) && math.Abs(f) <= exact
	default:
		return 0, false
	}
}

// List returns the entries of a list.
func (v Value) List() []Value {
	if !v.Set() {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.Bad("a list")
		return nil
	}
	out := make([]Value, 0, len(v.node.Content))
	for i, n := range v.node.Content {
		entry := v.doc.value(n, fmt.Sprintf("%s[%d]", v.key, i), n.Line)
		if v.doc.values > maxValues {
			return out
		}
		if !entry.Set() {
			entry.Fail("is empty: remove the entry")
			continue
		}
		out = append(out, entry)
	}
	return out
}
