// Package text prepares text from other programs for logs, metrics and the Kubernetes API, and
// joins words into sentences.
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

// Cut shortens s to a maximum size in bytes, which must be at least 3. A shortened text ends in
// "...". Cut replaces invalid UTF-8, which would grow on its way to an API server.
func Cut(s string, most int) string {
	const more = "..."
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= most {
		return s
	}
	// The cut may have split a character.
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}

// MaxLine is the maximum length of a log line in bytes. Container runtimes split lines of more than
// 16 KiB.
const MaxLine = 8 << 10

// OneLine returns the text of an error as one printable line of at most MaxLine bytes. It joins
// lines, such as the errors of errors.Join, with "; ".
func OneLine(err error) string {
	lines := strings.FieldsFunc(Cut(err.Error(), MaxLine), func(r rune) bool { return r == '\n' || r == '\r' })
	return Cut(Printable(strings.ReplaceAll(strings.Join(lines, "; "), "\t", " ")), MaxLine)
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
