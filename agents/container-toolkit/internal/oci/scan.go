package oci

import (
	"encoding/json"
	"errors"
)

var errSyntax = errors.New("it is not valid JSON")

// scanner cuts JSON into its parts without decoding them. What is not valid inside of a part
// it does not see. The decoder of the standard library takes several times as long, and a
// container waits for it.
type scanner struct {
	data []byte
	pos  int
}

// peek skips white space, and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// expect skips a byte, which must be the next one.
func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return errSyntax
	}
	s.pos++
	return nil
}

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	if s.peek() != 0 || s.pos < len(s.data) {
		return errSyntax
	}
	return nil
}

// items calls item for each item of an object or an array, which stands before it.
func (s *scanner) items(begin, end byte, item func() error) error {
	if err := s.expect(begin); err != nil {
		return err
	}
	for first := true; s.peek() != end; first = false {
		if !first {
			if err := s.expect(','); err != nil {
				return err
			}
		}
		if err := item(); err != nil {
			return err
		}
	}
	s.pos++
	return nil
}

// value returns the next value, without a copy.
func (s *scanner) value() (json.RawMessage, error) {
	first := s.peek()
	start := s.pos
	switch first {
	case 0:
		return nil, errSyntax
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		s.skipLiteral()
	}
	if s.pos == start {
		return nil, errSyntax
	}
	// A caller that appends must not write over what follows.
	return json.RawMessage(s.data[start:s.pos:s.pos]), nil
}

// skipString skips a string.
func (s *scanner) skipString() {
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case '\\':
			s.pos++
		case '"':
			s.pos++
			return
		}
	}
	s.pos = len(s.data)
}

// skipNested skips an object or an array.
func (s *scanner) skipNested() {
	for depth := 0; s.pos < len(s.data); {
		switch s.data[s.pos] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.pos++
		if depth == 0 {
			return
		}
	}
}

// skipLiteral skips a number or a word.
func (s *scanner) skipLiteral() {
	for ; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return
		}
	}
}
