package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// grace is how long a hook may run between SIGTERM and SIGKILL after its time limit, and how long the
// output of its child processes is read after the hook has ended.
const grace = 2 * time.Second

const (
	// maxOutput is the number of bytes that are logged of a hook's output.
	maxOutput = 256 << 10
	// perLine is added for each line, because a log entry has other fields.
	perLine = 64
)

// Runner runs the hooks of a file.
type Runner struct {
	File File
	// Env has variables for each hook. They describe the change. If a hook sets the same variable,
	// the value of Env is used, as in mig-parted.
	Env map[string]string
	// Limit is the time limit of a hook; 0 for no limit.
	Limit time.Duration
	// Log gets the output of hooks, line by line.
	Log *slog.Logger
}

// Run runs the hooks of a point in order, and stops at the first hook that fails. A hook and its
// child processes are ended when ctx ends or the time limit is reached. For ApplyExit, Run runs all
// hooks, even if ctx has ended, and returns all errors.
func (r Runner) Run(ctx context.Context, p Point) error {
	var errs []error
	if p == ApplyExit {
		ctx = context.WithoutCancel(ctx)
	}
	for _, h := range r.File[p] {
		err := r.run(ctx, p, h)
		if err != nil && p != ApplyExit {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r Runner) run(ctx context.Context, p Point, h Hook) error {
	whole := ctx
	if r.Limit > 0 {
		limited, cancel := context.WithTimeout(ctx, r.Limit)
		defer cancel()
		ctx = limited
	}
	log := r.Log.With("hook", string(p), "command", h.Command)
	log.Info("running hook")
	cmd := exec.CommandContext(ctx, h.Command, h.Args...) //nolint:gosec // the administrator's hooks file names the command
	cmd.Dir, cmd.Env = h.Dir, environment(h.Env, r.Env)
	// With a separate process group, the hook is ended together with its child processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return signal(cmd.Process, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if h.Dir != "" {
		// The error of exec would not distinguish a missing folder from a missing program.
		if _, err := os.Stat(h.Dir); err != nil {
			return fmt.Errorf("hook %s %s: workdir: %w: fix the hook, or remove it from %s", p, h.Command, err, h.At)
		}
	}
	err := output(cmd, log)
	if ctx.Err() != nil {
		_ = signal(cmd.Process, syscall.SIGKILL)
	}
	switch {
	case whole.Err() != nil:
		return fmt.Errorf("hook %s %s: %w", p, h.Command, context.Cause(whole))
	case ctx.Err() != nil:
		return fmt.Errorf("hook %s %s: it took longer than %s: fix the hook in %s, or set --hook-timeout to a longer time", p, h.Command, r.Limit, h.At)
	case err != nil:
		return fmt.Errorf("hook %s %s: %w: see its output in the log, then fix the hook, or remove it from %s", p, h.Command, err, h.At)
	}
	return nil
}

// signal sends a signal to a process group.
func signal(p *os.Process, s syscall.Signal) error {
	if p == nil {
		return os.ErrProcessDone
	}
	err := syscall.Kill(-p.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// output runs a program, and logs each line that it writes.
func output(cmd *exec.Cmd, log *slog.Logger) error {
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		left := maxOutput
		eachLine(out, func(line string) {
			switch {
			case left < 0:
			case left < len(line):
				log.Warn("the output of the hook is too long, not logging the rest", "limit", maxOutput)
				left = -1
			default:
				log.Info("hook output", "line", line)
				left -= len(line) + perLine
			}
		})
	}()
	err := cmd.Run()
	_ = in.Close()
	<-logged
	if errors.Is(err, exec.ErrWaitDelay) {
		log.Info("the hook ended, but a process that it started still runs, not logging its output")
		return nil
	}
	return err
}

// environment returns the variables in the form of a process environment. Variables in more replace
// variables in env.
func environment(env, more map[string]string) []string {
	all := map[string]string{}
	maps.Copy(all, env)
	maps.Copy(all, more)
	out := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
