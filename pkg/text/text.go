// Package text makes words that others wrote fit for logs, metrics and the
// Kubernetes API, and joins words into sentences.
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

// OneOf joins words as "a, b or c".
func OneOf[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
