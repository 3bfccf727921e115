// Package text makes words that others wrote fit for logs, metrics and the
// Kubernetes API.
package text

import (
	"strings"
	"unicode"
)

// Printable returns s with a question mark for each character that would not
// show: control characters, and what is not UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Cut returns s in at most so many bytes, which are 3 or more: what is too long
// ends in "...". What is not UTF-8 would become longer on its way to an API
// server, and is replaced.
func Cut(s string, most int) string {
	const more = "..."
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= most {
		return s
	}
	// The cut may have parted a character.
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}
