package agenttest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"outrigger.dev/pkg/gpu/simtest"
)

// Process is an agent that a test started. It ends with the test.
type Process struct {
	// Log collects the standard error of the process.
	Log *Lines

	t   testing.TB
	cmd *exec.Cmd
	// metrics holds the names of the metrics that documentedMetrics has checked.
	metrics sync.Map
}

// Command returns the agent with arguments, on the simulated node n, or on the host
// if n is nil. It needs a main package whose TestMain calls Main.
func Command(t testing.TB, n *simtest.Node, args ...string) *exec.Cmd {
	t.Helper()
	// A signal stops the process. The end of the test's context must not kill it.
	ctx := context.WithoutCancel(t.Context())
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	if n != nil {
		cmd = n.Command(ctx, os.Args[0], args...)
	}
	// Without this, a race build sleeps for a second before it exits.
	cmd.Env = append(os.Environ(), asMain+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Start starts a command of Command.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Log: NewLines(), t: t, cmd: cmd}
	cmd.Stderr = p.Log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent's log:\n%s", p.Log)
		}
	})
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.Stop()
		}
	})
	return p
}

// Signal sends a signal to the agent.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// Hangup sends the n-th SIGHUP and waits until the agent has reloaded.
func (p *Process) Hangup(n int) {
	p.t.Helper()
	p.Signal(syscall.SIGHUP)
	Poll(p.t, "the reload after SIGHUP", func() bool { return strings.Count(p.Log.String(), "msg=reloading") == n })
}

// Stop stops the agent as the kubelet does, and checks that it exits with 0 in time.
func (p *Process) Stop() {
	p.t.Helper()
	if err := p.terminate(); err != nil {
		p.t.Errorf("the agent ended with %v", err)
	}
}

// Dies stops an agent that cannot exit cleanly, and checks that it exits in time with one error.
// The error is the last line of the log and contains the text why.
func (p *Process) Dies(why string) {
	p.t.Helper()
	err := p.terminate()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		p.t.Errorf("the agent ended with %v, want exit code 1", err)
	}
	log := p.Log.String()
	_, last, _ := strings.Cut(log, "level=ERROR")
	if strings.Count(log, "level=ERROR") != 1 || strings.Count(last, "\n") != 1 || !strings.Contains(last, why) {
		p.t.Errorf("want one line that says %q at the end of the log", why)
	}
	if strings.Contains(log, "goroutine ") {
		p.t.Error("the log has the stacks of goroutines")
	}
}

// terminate stops the agent and returns the error of its exit. The agent itself measures whether it
// exits in time, because a busy machine also slows the test.
func (p *Process) terminate() error {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	late := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Wait()
	if strings.Contains(p.Log.String(), "not stopped in time") {
		p.t.Error("the agent did not end in time")
	}
	return err
}

// Kill kills the agent, which cannot clean up.
func (p *Process) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // the error says that the process was killed
}

// Said waits until one line of the log contains all parts.
func (p *Process) Said(parts ...string) {
	p.t.Helper()
	if err := p.Log.Wait(Deadline(p.t), parts...); err != nil {
		p.t.Fatal(err)
	}
}

// Fails runs a command of Command, and checks that it exits with the code and that its last line
// contains all of want. With code 2, a wrong command line, it must print only this line.
func Fails(t testing.TB, cmd *exec.Cmd, code int, want ...string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Fatalf("ended with %v, want exit code %d; it said:\n%s", err, code, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if code == 2 && len(lines) != 1 {
		t.Errorf("a bad command line takes %d lines, want 1:\n%s", len(lines), stderr.String())
	}
	for _, part := range want {
		if last := lines[len(lines)-1]; !strings.Contains(last, part) {
			t.Errorf("the error %q lacks %q", last, part)
		}
	}
}
