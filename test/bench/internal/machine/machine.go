// Package machine describes the machine that runs a measurement.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Describe returns the processors, the memory and the kernel of this machine.
func Describe() (string, error) {
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("describe the machine: %w", err)
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", fmt.Errorf("describe the machine: sysinfo: %w", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("describe the machine: uname: %w", err)
	}
	return describe(string(cpus), runtime.NumCPU(), info.Totalram*uint64(info.Unit), unix.ByteSliceToString(name.Release[:])), nil
}

// describe returns the text. cpuinfo is the content of /proc/cpuinfo, and memory is in bytes.
func describe(cpuinfo string, processors int, memory uint64, release string) string {
	model := runtime.GOARCH
	for line := range strings.Lines(cpuinfo) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			model = strings.Join(strings.Fields(value), " ")
			break
		}
	}
	version, _, _ := strings.Cut(release, "-")
	return fmt.Sprintf("%d processors (%s), %d GiB of memory, Linux %s", processors, model, (memory+1<<29)>>30, version)
}
