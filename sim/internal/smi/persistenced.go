package smi

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"outrigger.dev/sim/internal/background"
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
	return background.Start(persistenced, pidFile, nil, []string{daemonVariable + "=1"})
}

// runDaemon writes the PID file, and removes it on SIGTERM.
func runDaemon() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := os.MkdirAll(filepath.Dir(pidFile), 0o755); err != nil { //nolint:gosec // the real daemon uses this mode
		return fmt.Errorf("make the folder of the PID file: %w", err)
	}
	if err := os.WriteFile(pidFile, []byte(background.PIDText(os.Getpid())), fs.FileMode(0o644)); err != nil { //nolint:gosec // the real daemon uses this mode
		return fmt.Errorf("write the PID file: %w", err)
	}
	<-stop
	return os.Remove(pidFile)
}
