// Package process runs a program as a separate process, and measures its time, memory, goroutines
// and files.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"outrigger.dev/pkg/hostfs"
)

// StepLimit is the time limit of each measured step.
const StepLimit = 30 * time.Second

// Limited returns a context with the time limit of one step.
func Limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, StepLimit, fmt.Errorf("not within %s", StepLimit))
}

// Config describes the program to run.
type Config struct {
	// Line is the program with its arguments. Env is added to the environment of this process.
	Line, Env []string
	// Log is the file for the program's standard error.
	Log string
}

// Process is a running program.
type Process struct {
	// Started is the time of its start.
	Started time.Time

	cfg Config
	cmd *exec.Cmd
}

// Start starts a program. It is killed when ctx ends.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	p := &Process{cfg: cfg, cmd: exec.CommandContext(ctx, cfg.Line[0], cfg.Line[1:]...)}
	p.cmd.Env = append(p.cmd.Environ(), cfg.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.begin(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name(), err)
	}
	return p, nil
}

func (p *Process) begin() error {
	log, err := os.OpenFile(p.cfg.Log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	p.cmd.Stderr = log
	p.Started = time.Now()
	return errors.Join(p.cmd.Start(), log.Close())
}

// Stop stops the process as the kubelet does.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name(), err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", p.name(), err, p.Tail())
	}
	return nil
}

// Tail returns the end of the log.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.cfg.Log)
	if err != nil {
		return err.Error()
	}
	const enough = 4000
	return string(data[max(0, len(data)-enough):])
}

// KeepLog copies the log to path.
func (p *Process) KeepLog(path string) error {
	data, err := os.ReadFile(p.cfg.Log)
	if err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	return hostfs.WriteFile(path, data, 0o644)
}

func (p *Process) name() string { return filepath.Base(p.cfg.Line[0]) }
