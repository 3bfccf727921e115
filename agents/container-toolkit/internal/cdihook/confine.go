package cdihook

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Confine prepares the process for a hostile container; the program calls it first. Some
// runtimes give a hook the environment of the container, from which the Go runtime would
// take GODEBUG and others: then the program starts itself again, with the variables that
// CDI specs set only. Other processes, which may share the process namespace, cannot open
// its files or its program through /proc.
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

// Limit bounds what work in a container can cost the host, outside of the container's own
// cgroup: a hostile image can have any number of libraries, and folders in ld.so.conf.
func Limit() {
	// The work is done before collecting garbage would pay, unless the image is hostile.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	lowerLimit(unix.RLIMIT_CORE, 0)
	const seconds = 20
	lowerLimit(unix.RLIMIT_CPU, seconds)
}

// lowerLimit sets a limit of the process. One that is lower already is as good.
func lowerLimit(resource int, limit uint64) {
	_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit})
}

// environment returns the variables that a hook keeps, and whether there are more.
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
