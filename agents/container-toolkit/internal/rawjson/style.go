package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// defaultUnit is the indentation for documents that do not show their own.
const defaultUnit = "    "

// style is the format of a document.
type style struct {
	// unit is the indentation of one level, newline the line break. Both are "" for a document
	// on one line.
	unit, newline string
	// colon is the text between a key and its value, comma the text between two members on
	// one line.
	colon, comma string
}

// styleOf returns the format of a document, from its first member.
func styleOf(text []byte) style {
	s := style{unit: defaultUnit, newline: "\n", colon: ": ", comma: ", "}
	o := readObject(text, skipSpace(text, 0))
	if len(o.members) == 0 {
		return s
	}
	m := o.members[0]
	s.colon = string(text[m.keyEnd:m.value])
	before := string(text[o.open+1 : m.key])
	i := strings.LastIndexByte(before, '\n')
	if i < 0 {
		s.unit, s.newline = "", ""
		if len(strings.TrimSpace(s.colon)) == len(s.colon) {
			s.comma = ","
		}
		return s
	}
	s.unit = before[i+1:]
	if s.unit == "" {
		s.unit = defaultUnit
	}
	if strings.Contains(before, "\r\n") {
		s.newline = "\r\n"
	}
	return s
}

// insert adds a member at the end of an object.
func (s style) insert(text []byte, o object, name, value string) ([]byte, error) {
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	outer := lineIndent(text, o.open)
	if len(o.members) > 0 {
		last := o.members[len(o.members)-1]
		before := string(text[o.separator(text, len(o.members)-1):last.key])
		indent := lineIndent(text, last.key)
		formatted, err := s.format(value, indent)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(before, "\n") && len(o.members) == 1 {
			before = strings.TrimPrefix(s.comma, ",")
		}
		return slices.Concat(text[:last.valueEnd], []byte(","+before), key, []byte(s.colon), formatted, text[last.valueEnd:]), nil
	}
	formatted, err := s.format(value, outer+s.unit)
	if err != nil {
		return nil, err
	}
	open, end := "", ""
	if s.newline != "" {
		open, end = s.newline+outer+s.unit, s.newline+outer
	}
	return slices.Concat(text[:o.open+1], []byte(open), key, []byte(s.colon), formatted, []byte(end), text[o.close:]), nil
}

// separator returns the offset after the comma or brace before a member.
func (o object) separator(text []byte, i int) int {
	if i == 0 {
		return o.open + 1
	}
	return skipSpace(text, o.members[i-1].valueEnd) + 1
}

// format returns a value in the format of the document. indent is the indentation of its line.
func (s style) format(value, indent string) ([]byte, error) {
	var b bytes.Buffer
	if s.newline == "" {
		err := json.Compact(&b, []byte(value))
		return b.Bytes(), err
	}
	if err := json.Indent(&b, []byte(value), indent, s.unit); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(s.newline)), nil
}

// lineIndent returns the white space at the beginning of the line that contains an offset.
func lineIndent(text []byte, at int) string {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}
