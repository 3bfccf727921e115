package loader

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

var (
	// parts are the numbers and words in a release of a kernel.
	parts = regexp.MustCompile(`[0-9]+|[A-Za-z]+`)
	// numbers are the parts of a release that change in updates.
	numbers = regexp.MustCompile(`[0-9._]+`)
)

// kernelFlavour returns the text of a release without its versions. It is the same for all releases that update each
// other, and differs for the other kernels of a distribution, such as -cloud-amd64, +debug or -aws.
func kernelFlavour(release string) string { return numbers.ReplaceAllString(release, "") }

// compareReleases compares releases of kernels, part by part, as package managers do: a number is newer than a word,
// and a release with more parts is newer.
func compareReleases(a, b string) int {
	x, y := parts.FindAllString(a, -1), parts.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		if c := compareParts(x[i], y[i]); c != 0 {
			return c
		}
	}
	return len(x) - len(y)
}

func compareParts(a, b string) int {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return 1
	case errY == nil:
		return -1
	}
	return strings.Compare(a, b)
}
