// Package background starts the daemons of the simulated driver.
package background

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Command returns a command that runs this program as the program with this name, which is in the same folder. A process gets its
// name from the file that is executed, and os.Executable is another file if that file is a link.
func Command(name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	return exec.Command(filepath.Join(filepath.Dir(self), name), args...), nil //nolint:gosec,noctx // the callers say when it ends
}

// Start starts the program with this name in the background, with arguments and further variables of the
// environment. It returns when the process has written its PID file, or has ended.
func Start(name, pidFile string, args, env []string) error {
	cmd, err := Command(name, args...)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), env...), &stderr, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ProcessState has the result
	}()
	for {
		select {
		case <-ended:
			if text := strings.TrimSpace(stderr.String()); text != "" {
				return errors.New(text)
			}
			return fmt.Errorf("the daemon has ended: %s", cmd.ProcessState)
		case <-time.After(5 * time.Millisecond): //nolint:mnd // soon
			if text, err := os.ReadFile(pidFile); err == nil && string(text) == PIDText(cmd.Process.Pid) {
				return nil
			}
		}
	}
}

// PIDText returns the content of a PID file.
func PIDText(pid int) string { return strconv.Itoa(pid) + "\n" }
