package mps

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// logs are the log files of a daemon and its servers, in the form of NVIDIA's.
type logs struct{ control, server *os.File }

func openLogs(dir string) (logs, error) {
	var l logs
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // users read the logs
		return l, fmt.Errorf("make the log folder, which CUDA_MPS_LOG_DIRECTORY names: %w", err)
	}
	for name, at := range map[string]**os.File{"control.log": &l.control, "server.log": &l.server} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // users read the logs
		if err != nil {
			return l, fmt.Errorf("open the log: %w", err)
		}
		*at = f
	}
	return l, nil
}

// controlf logs an event of the daemon.
func (l logs) controlf(format string, args ...any) {
	write(l.control, "Control", os.Getpid(), format, args)
}

// serverf logs an event of a server.
func (l logs) serverf(pid int, format string, args ...any) {
	write(l.server, "Server", pid, format, args)
}

// write appends a line. A full disk does not end the daemon.
func write(f *os.File, part string, pid int, format string, args []any) {
	const timeFormat = "2006-01-02 15:04:05.000"
	_, _ = fmt.Fprintf(f, "[%s %s %5d] %s\n", time.Now().Format(timeFormat), part, pid, fmt.Sprintf(format, args...))
}
