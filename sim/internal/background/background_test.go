package background_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/sim/internal/background"
)

const (
	program = "nvidia-daemon"
	// inBackground marks the process in the background.
	inBackground = "BACKGROUND_TEST"
)

// TestMain makes a process of the test binary the program, which has the path of its PID file as its argument.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != program {
		os.Exit(m.Run())
	}
	err := start(os.Args[1])
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error())
		os.Exit(1)
	}
}

func start(pidFile string) error {
	if os.Getenv(inBackground) == "" {
		return background.Start(program, pidFile, []string{pidFile}, []string{inBackground + "=1"})
	}
	if pidFile == "none" {
		return nil
	}
	if err := os.WriteFile(pidFile, []byte(background.PIDText(os.Getpid())), 0o600); err != nil {
		return err
	}
	return syscall.Pause() // until the test ends it
}

// The driver's programs are links to one program on some nodes, and hard links on others.
func TestTheDaemonHasTheNameOfItsProgram(t *testing.T) {
	self, err := os.Executable()
	assert.NilError(t, err)
	for kind, link := range map[string]func(dir string) error{
		"a link":      func(dir string) error { return os.Symlink("gpu-sim", filepath.Join(dir, program)) },
		"a hard link": func(dir string) error { return os.Link(filepath.Join(dir, "gpu-sim"), filepath.Join(dir, program)) },
	} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			data, err := os.ReadFile(self)
			assert.NilError(t, err)
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "gpu-sim"), data, 0o755)) //nolint:gosec // a program
			assert.NilError(t, link(dir))
			pidFile := filepath.Join(dir, "pid")
			cmd := exec.CommandContext(agenttest.Deadline(t), filepath.Join(dir, program), pidFile)
			out, err := cmd.CombinedOutput()
			assert.NilError(t, err, "%s", out)
			text, err := os.ReadFile(pidFile)
			assert.NilError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			assert.NilError(t, err)
			defer func() { assert.NilError(t, syscall.Kill(pid, syscall.SIGKILL)) }()
			args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			assert.NilError(t, err)
			name, _, _ := strings.Cut(string(args), "\x00")
			assert.Equal(t, filepath.Base(name), program)

			out, err = exec.CommandContext(agenttest.Deadline(t), filepath.Join(dir, program), "none").CombinedOutput()
			assert.ErrorContains(t, err, "exit status 1")
			assert.Equal(t, string(out), "the daemon has ended: exit status 0")
		})
	}
}
