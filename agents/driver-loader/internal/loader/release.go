package loader

import (
	"strings"
	"unicode"
)

// compareReleases compares releases of kernels: their numbers as numbers, and the rest as text.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a = cutRun(a)
		y, b = cutRun(b)
		if unicode.IsDigit(rune(x[0])) && unicode.IsDigit(rune(y[0])) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// cutRun returns the longest prefix with digits only, or without digits, and the rest.
func cutRun(s string) (run, rest string) {
	digits := unicode.IsDigit(rune(s[0]))
	end := strings.IndexFunc(s, func(r rune) bool { return unicode.IsDigit(r) != digits })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}
