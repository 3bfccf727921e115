package text

import "strings"

// Nearest returns the known word that the author of word probably meant, or "" if no known word is
// similar. Two words are similar if at most two edits lie between them, ignoring case.
func Nearest(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least && d < min(len(k), len(word)) {
			best, least = k, d
		}
	}
	return best
}

// distance returns the edit distance of a and b, at most 3.
func distance(a, b string) int {
	if far := len(a) - len(b); far > 2 || far < -2 {
		return 3
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
