// Package rawjson edits JSON documents as text. All other bytes stay the same, and new members
// get the format of the document.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// member is a member of an object, with the offsets of its key and its value.
type member struct {
	name            string
	key, keyEnd     int
	value, valueEnd int
}

// object is an object in a text: the offsets of its braces, and its members.
type object struct {
	open, close int
	members     []member
}

// Check returns an error unless text is one JSON object.
func Check(text []byte) error {
	var whole map[string]json.RawMessage
	err := json.Unmarshal(text, &whole)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n")) + 1
		return fmt.Errorf("line %d: %w", line, err)
	}
	if err == nil && whole == nil {
		return fmt.Errorf("line 1: it is null instead of an object")
	}
	return err
}

// Get returns the text of the value at path, or "" if there is none.
func Get(text []byte, path ...string) string {
	if Check(text) != nil {
		return ""
	}
	at := skipSpace(text, 0)
	for i, name := range path {
		if text[at] != '{' {
			return ""
		}
		m := readObject(text, at).find(name)
		if m == nil {
			return ""
		}
		if i == len(path)-1 {
			return string(text[m.value:m.valueEnd])
		}
		at = m.value
	}
	return ""
}

// Set sets the member at path to the value, which is JSON text. It adds missing objects of the
// path at the end of their parents.
func Set(text []byte, path []string, value string) ([]byte, error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	s := styleOf(text)
	at := skipSpace(text, 0)
	for i, name := range path {
		if text[at] != '{' {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:i], "."))
		}
		o := readObject(text, at)
		m := o.find(name)
		if m == nil {
			return s.insert(text, o, name, nest(path[i+1:], value))
		}
		if i == len(path)-1 {
			formatted, err := s.format(value, lineIndent(text, m.key))
			if err != nil {
				return nil, err
			}
			return slices.Concat(text[:m.value], formatted, text[m.valueEnd:]), nil
		}
		at = m.value
	}
	return text, nil
}

// Delete removes the member at path, if it exists.
func Delete(text []byte, path ...string) []byte {
	if Check(text) != nil {
		return text
	}
	at := skipSpace(text, 0)
	for i, name := range path {
		if text[at] != '{' {
			return text
		}
		o := readObject(text, at)
		m := o.find(name)
		if m == nil {
			return text
		}
		if i == len(path)-1 {
			return o.remove(text, m)
		}
		at = m.value
	}
	return text
}

// nest wraps the value in the objects of path, as JSON text.
func nest(path []string, value string) string {
	for _, name := range slices.Backward(path) {
		key, _ := json.Marshal(name) // a string always has an encoding
		value = "{" + string(key) + ":" + value + "}"
	}
	return value
}

// find returns the last member with the name, because decoders use the last one. It returns nil
// if no member has the name.
func (o object) find(name string) *member {
	for i := range slices.Backward(o.members) {
		if o.members[i].name == name {
			return &o.members[i]
		}
	}
	return nil
}

// remove removes a member, with its comma and white space.
func (o object) remove(text []byte, m *member) []byte {
	i := slices.IndexFunc(o.members, func(x member) bool { return x.key == m.key })
	switch {
	case len(o.members) == 1:
		return slices.Concat(text[:o.open+1], text[o.close:])
	case i == 0:
		return slices.Concat(text[:m.key], text[o.members[1].key:])
	default:
		return slices.Concat(text[:o.members[i-1].valueEnd], text[m.valueEnd:])
	}
}

// readObject returns the object that begins at an offset of a valid document.
func readObject(text []byte, at int) object {
	o := object{open: at}
	at = skipSpace(text, at+1)
	for text[at] != '}' {
		m := member{key: at, keyEnd: skipValue(text, at)}
		_ = json.Unmarshal(text[m.key:m.keyEnd], &m.name) // the document is valid
		m.value = skipSpace(text, skipSpace(text, m.keyEnd)+1)
		m.valueEnd = skipValue(text, m.value)
		o.members = append(o.members, m)
		at = skipSpace(text, m.valueEnd)
		if text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	o.close = at
	return o
}

// skipSpace returns the offset of the first byte at or after an offset that is not white space.
func skipSpace(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
		at++
	}
	return at
}

// skipValue returns the offset after the value that begins at an offset of a valid document.
func skipValue(text []byte, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch c := text[at]; c {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
			if depth < 0 {
				return at
			}
		default:
			if depth == 0 && strings.IndexByte(", \t\r\n", c) >= 0 {
				return at
			}
		}
	}
	return at
}
