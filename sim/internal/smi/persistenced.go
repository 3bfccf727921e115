package smi

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// persistenced is the name of the daemon that keeps GPUs initialized. pidFile is its PID file.
const (
	persistenced = "nvidia-persistenced"
	pidFile      = "/run/nvidia-persistenced/nvidia-persistenced.pid"
)

// daemonVariable is an environment variable that marks the background process.
const daemonVariable = "GPU_SIM_AS_DAEMON"

// startDaemon starts nvidia-persistenced, which has no effect on a simulated node. Like the real
// program, it returns after the background process has written the PID file.
func startDaemon() error {
	if os.Getenv(daemonVariable) != "" {
		return runDaemon()
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	// The process gets its name from the file that is executed.
	cmd := exec.Command(filepath.Join(filepath.Dir(self), persistenced)) //nolint:gosec,noctx // the daemon outlives this process
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), daemonVariable+"=1"), &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("the daemon has ended: %w", err)
		case <-time.After(5 * time.Millisecond): //nolint:mnd // soon
			if text, err := os.ReadFile(pidFile); err == nil && string(text) == strconv.Itoa(cmd.Process.Pid)+"\n" {
				return nil
			}
		}
	}
}

// runDaemon writes the PID file, and removes it on SIGTERM.
func runDaemon() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := os.MkdirAll(filepath.Dir(pidFile), 0o755); err != nil { //nolint:gosec // the real daemon uses this mode
		return fmt.Errorf("make the folder of the PID file: %w", err)
	}
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), fs.FileMode(0o644)); err != nil { //nolint:gosec // the real daemon uses this mode
		return fmt.Errorf("write the PID file: %w", err)
	}
	<-stop
	return os.Remove(pidFile)
}
