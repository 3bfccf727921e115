package nodeinit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
)

// residentMemory returns the memory that a process occupies, in bytes; zero if
// it is gone.
func residentMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
