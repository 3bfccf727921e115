package containercli

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// logFile is the log file of --debug. The zero value logs nothing.
type logFile struct{ file *os.File }

func openLog(path string) (logFile, error) {
	if path == "" || path == "/dev/null" {
		return logFile{}, nil
	}
	f, err := hostfs.OpenLog(path, 0o640, unix.O_NOFOLLOW)
	if err != nil {
		return logFile{}, fmt.Errorf("open the log of --debug: %w", err)
	}
	return logFile{f}, nil
}

// printf writes a line. A logging error is ignored, so that it does not fail the container.
func (l logFile) printf(format string, args ...any) {
	if l.file != nil {
		fmt.Fprintf(l.file, "%s %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
	}
}

func (l logFile) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}
