// Package mounttab reads the mounts that the process sees.
package mounttab

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// Mount is a line of /proc/self/mountinfo (proc(5)).
type Mount struct {
	// At is the mount point.
	At string
	// Shared is set if mounts below it are seen in other mount namespaces.
	Shared bool
}

// Each calls f for each mount, in the order in which they were made.
func Each(f func(Mount)) error {
	file, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for s.Scan() {
		if fields := strings.Fields(s.Text()); len(fields) > 6 {
			f(Mount{At: unescape(fields[4]), Shared: strings.Contains(strings.Join(fields[6:], " "), "shared:")})
		}
	}
	return s.Err()
}

// Points returns the mount points.
func Points() (map[string]bool, error) {
	points := map[string]bool{}
	err := Each(func(m Mount) { points[m.At] = true })
	return points, err
}

// unescape reads a path of mountinfo, where some characters are octal numbers.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
