package label

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxText is how long the value of a label may be, and the name in its key
// (Kubernetes, "Syntax and character set" of labels).
const maxText = 63

// unknown is the value of a label that is always there.
const unknown = "unknown"

// clean returns what of a text can stand in a label: NVIDIA's feature discovery
// leaves out all but ASCII letters, digits, "-", "_", "." and spaces, and joins
// words by "-". The ends of the value of a label are letters or digits, which it
// does not look after.
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

// isValue reports whether a text can be the value of a label.
func isValue(text string) bool {
	odd := strings.ContainsFunc(text, func(r rune) bool { return !inLabel(r) })
	return len(text) <= maxText && !odd && trim(text) == text
}

func trim(text string) string { return strings.Trim(text, "-_.") }

// fit returns a cleaned text and its suffix in at most limit characters. The
// suffix is kept in full. A text that is cut ends with a hash of itself, so that
// two long ones that begin alike do not become one.
func fit(text, suffix string, limit int) string {
	if len(text)+len(suffix) <= limit {
		return text + suffix
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text))
	end := fmt.Sprintf("-%08x%s", hash.Sum32(), suffix)
	return trim(text[:limit-len(end)]) + end
}
