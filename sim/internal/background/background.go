// Package background starts the daemons of the simulated driver.
package background

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Start starts this program again in the background, with arguments and further variables of the
// environment. It returns when the process has written its PID file, or has ended.
func Start(pidFile string, args, env []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(self, args...) //nolint:gosec,noctx // the daemon outlives this process
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), env...), &stderr, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if text := strings.TrimSpace(stderr.String()); text != "" {
				return errors.New(text)
			}
			return fmt.Errorf("the daemon has ended: %w", err)
		case <-time.After(5 * time.Millisecond): //nolint:mnd // soon
			if text, err := os.ReadFile(pidFile); err == nil && string(text) == PIDText(cmd.Process.Pid) {
				return nil
			}
		}
	}
}

// PIDText returns the content of a PID file.
func PIDText(pid int) string { return strconv.Itoa(pid) + "\n" }
