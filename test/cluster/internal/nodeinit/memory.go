package nodeinit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
)

// residentMemory returns the resident memory of a process in bytes, and 0 if the process
// has ended.
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
