package label

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxText is the maximum length of a label's value, and of the name in its key, in characters
// (Kubernetes, "Syntax and character set" of labels).
const maxText = 63

// unknown is the value of a label that is always set.
const unknown = "unknown"

// clean returns a text without the characters that a label cannot contain. Like NVIDIA's feature
// discovery, it omits all characters except ASCII letters, digits, "-", "_", "." and spaces, and
// joins words with "-". Unlike NVIDIA's, it also removes "-", "_" and "." at both ends, because
// Kubernetes requires a letter or digit there.
func clean(text string) string {
	kept := strings.Map(func(r rune) rune {
		if r == ' ' || inLabel(r) {
			return r
		}
		return -1
	}, text)
	return trim(strings.Join(strings.Fields(kept), "-"))
}

func inLabel(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
}

// isValue reports whether a text is a valid value of a label.
func isValue(text string) bool {
	odd := strings.ContainsFunc(text, func(r rune) bool { return !inLabel(r) })
	return len(text) <= maxText && !odd && trim(text) == text
}

func trim(text string) string { return strings.Trim(text, "-_.") }

// fit returns a cleaned text and its suffix in at most limit characters. It keeps the whole
// suffix. If it truncates the text, it adds a hash of the text, so that two long texts with the
// same beginning stay different.
func fit(text, suffix string, limit int) string {
	if len(text)+len(suffix) <= limit {
		return text + suffix
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text))
	end := fmt.Sprintf("-%08x%s", hash.Sum32(), suffix)
	return trim(text[:limit-len(end)]) + end
}
