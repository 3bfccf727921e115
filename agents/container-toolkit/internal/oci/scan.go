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
	at   int
}

// next skips white space, and returns the next byte, or 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take skips a byte, which must be the next one.
func (s *scanner) take(c byte) error {
	if s.next() != c {
		return errSyntax
	}
	s.at++
	return nil
}

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	if s.next() != 0 || s.at < len(s.data) {
		return errSyntax
	}
	return nil
}

// items calls item for each item of an object or an array, which stands before it.
func (s *scanner) items(begin, end byte, item func() error) error {
	if err := s.take(begin); err != nil {
		return err
	}
	for first := true; s.next() != end; first = false {
		if !first {
			if err := s.take(','); err != nil {
				return err
			}
		}
		if err := item(); err != nil {
			return err
		}
	}
	s.at++
	return nil
}

// value returns the next value, without a copy.
func (s *scanner) value() (json.RawMessage, error) {
	first := s.next()
	start := s.at
	switch first {
	case 0:
		return nil, errSyntax
	case '"':
		s.text()
	case '{', '[':
		s.nested()
	default:
		s.plain()
	}
	if s.at == start {
		return nil, errSyntax
	}
	// A caller that appends must not write over what follows.
	return json.RawMessage(s.data[start:s.at:s.at]), nil
}

// text skips a string.
func (s *scanner) text() {
	for s.at++; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return
		}
	}
	s.at = len(s.data)
}

// nested skips an object or an array.
func (s *scanner) nested() {
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			s.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return
		}
	}
}

// plain skips a number or a word.
func (s *scanner) plain() {
	for ; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return
		}
	}
}
