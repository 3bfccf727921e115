// Package text makes text from outside fit for logs, metrics and the Kubernetes API.
package text

import (
	"strings"
	"unicode"
)

// Printable returns s with a question mark for each character that is not printable or
// not UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Cut returns s in at most that many bytes, at least 3: a longer text ends in "...". It
// replaces what is not UTF-8, which would grow on its way to an API server.
func Cut(s string, most int) string {
	const more = "..."
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= most {
		return s
	}
	// The cut may have split a character.
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}
