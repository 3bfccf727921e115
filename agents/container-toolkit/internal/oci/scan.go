package oci

import (
	"encoding/json"
	"errors"
)

var errSyntax = errors.New("it is not valid JSON")

// scanner splits JSON into parts without decoding them. It does not detect errors inside of a part.
// It exists because the decoder of the standard library takes several times as long, and a
// container waits for it.
type scanner struct {
	data []byte
	pos  int
}

// peek skips white space, and returns the next byte without consuming it, or 0 at the end.
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

// expect consumes a byte, and returns an error if it is not c.
func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return errSyntax
	}
	s.pos++
	return nil
}

// end returns an error unless only white space remains.
func (s *scanner) end() error {
	if s.peek() != 0 || s.pos < len(s.data) {
		return errSyntax
	}
	return nil
}

// items reads an object or an array. It calls item at the start of each item, to consume it.
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

// value returns the next value. It does not copy the data.
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
	// The capacity is limited, so that a caller that appends does not overwrite the next bytes.
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

// skipLiteral skips a number, true, false or null.
func (s *scanner) skipLiteral() {
	for ; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return
		}
	}
}
