// Package process runs what is measured as a process of its own, and reads what
// it costs: time, memory, goroutines, files.
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

// StepLimit is how long anything that is measured may take.
const StepLimit = 30 * time.Second

// Limited bounds one step.
func Limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, StepLimit, fmt.Errorf("not within %s", StepLimit))
}

// Config says what is run.
type Config struct {
	// Line is the program and its arguments, Env what its environment has besides
	// that of this process.
	Line, Env []string
	// Log is the path of what the program writes to standard error.
	Log string
}

// Process is a program that runs.
type Process struct {
	// Started is when it was started.
	Started time.Time

	cfg Config
	cmd *exec.Cmd
}

// Start starts a program, which ends at the latest with ctx.
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

// Stop ends the process as the kubelet does.
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

// KeepLog copies the log to a file.
func (p *Process) KeepLog(path string) error {
	data, err := os.ReadFile(p.cfg.Log)
	if err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	return hostfs.WriteFile(path, data, 0o644)
}

func (p *Process) name() string { return filepath.Base(p.cfg.Line[0]) }
