package cdihook

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Confine protects the process from a hostile container. The program calls it first. Some runtimes
// pass the environment of the container to a hook, and the Go runtime would read GODEBUG and other
// variables. In this case, the program starts itself again with only the variables that CDI specs
// set. Confine also prevents processes that share the PID namespace from opening the program's
// files through /proc.
func Confine() error {
	if keep, more := environment(os.Environ()); more {
		if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil && err != unix.ENOSYS && err != unix.EINVAL {
			return fmt.Errorf("close inherited files: %w", err)
		}
		return fmt.Errorf("start again with an empty environment: %w", unix.Exec("/proc/self/exe", os.Args, keep))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the process: %w", err)
	}
	unix.Umask(0o022)
	lowerLimit(unix.RLIMIT_FSIZE, 64<<20)
	Limit()
	return nil
}

// Limit limits the resources of this process, which is not in the container's cgroup. A hostile
// image can have any number of libraries, and of folders in ld.so.conf.
func Limit() {
	// Unless the image is hostile, the process ends before garbage collection pays off.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	lowerLimit(unix.RLIMIT_CORE, 0)
	const seconds = 20
	lowerLimit(unix.RLIMIT_CPU, seconds)
}

// lowerLimit lowers a limit of the process. If the limit is already lower, the error is ignored.
func lowerLimit(resource int, limit uint64) {
	_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit})
}

// environment returns the variables to keep, and whether there are other variables.
func environment(env []string) (keep []string, more bool) {
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name == "NVIDIA_CTK_DEBUG" && (value == "true" || value == "false") {
			keep = append(keep, v)
		} else {
			more = true
		}
	}
	return keep, more
}
