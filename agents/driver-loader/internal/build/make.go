package build

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/progress"
)

const (
	// planLimit is the longest time for a dry run, which only counts.
	planLimit = 2 * time.Minute
	// endLimit is the time in which make and the compilers end after SIGTERM. They remove the files
	// that they have not finished.
	endLimit = time.Second
)

// makeRun is a run of make in a folder with sources.
type makeRun struct {
	dir     string
	headers Headers
	// compiler is the path of the compiler.
	compiler string
	exclude  []string
	// target is the target of make. Default: modules.
	target string
	// variables are further variables of make, as NAME=value.
	variables []string
	jobs      int
	// background is set if all other programs of the node come first.
	background bool
	subject    string
	log        string
	progress   func(progress.Progress)
	// now is time.Now, except in tests.
	now func() time.Time
}

// arguments returns the arguments for make. Its variables are defined by the Makefile in NVIDIA's
// folder kernel-open. NVIDIA's installer sets them in the same way.
func (m makeRun) arguments() []string {
	const few = 4 // in the background, one job for this number of processors
	jobs := m.jobs
	switch {
	case jobs > 0:
	case m.background:
		jobs = (runtime.NumCPU() + few - 1) / few
	default:
		jobs = runtime.NumCPU()
	}
	args := []string{
		"-j", strconv.Itoa(jobs), cmp.Or(m.target, "modules"),
		"SYSSRC=" + m.headers.Source, "KERNEL_UNAME=" + m.headers.Release,
		"CC=" + m.compiler, "IGNORE_CC_MISMATCH=1",
	}
	if m.headers.Build != m.headers.Source {
		args = append(args, "SYSOUT="+m.headers.Build)
	}
	if strings.HasPrefix(Compiler(m.headers.Compiler), "clang") {
		args = append(args, "LLVM=1")
	}
	if len(m.exclude) > 0 {
		args = append(args, "NV_EXCLUDE_KERNEL_MODULES="+strings.Join(m.exclude, " "))
	}
	return append(args, m.variables...)
}

// run runs make, and reports each action. If ctx ends, make and its child processes end with it, and if
// this process is killed, they are killed too. The result complete is set unless make was killed, and has
// left files that it had not finished.
func (m makeRun) run(ctx context.Context) (complete bool, err error) {
	measure := newMeter()
	// The makefiles of the kernel cannot plan everything, so errors of the dry run have no effect.
	m.plan(ctx, measure)
	var tail []string
	state, err := m.make(ctx, m.arguments(), func(output io.Reader) (err error) {
		tail, err = m.follow(output, measure)
		return err
	})
	complete = state == nil || !killed(state)
	if _, exited := errors.AsType[*exec.ExitError](err); exited && ctx.Err() == nil {
		return complete, failure(m.subject, m.log, tail, err)
	}
	if err == nil {
		measure.finish(m.progress)
	}
	return complete, err
}

// killed reports whether a process could not end by itself.
func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// plan counts the actions that make will run, by a dry run.
func (m makeRun) plan(ctx context.Context, measure *meter) {
	limited, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	arguments := slices.Concat([]string{"--dry-run", "--keep-going"}, m.arguments())
	_, _ = m.make(limited, arguments, func(output io.Reader) error { return eachLine(output, measure.plan) })
	measure.planned(m.headers.BTF)
}

// make runs make, whose output and errors the function read reads to the end.
func (m makeRun) make(ctx context.Context, arguments []string, read func(io.Reader) error) (state *os.ProcessState, err error) {
	if !m.background {
		return m.execute(ctx, arguments, read)
	}
	// A process inherits the priority of the thread that starts it. A thread cannot raise its priority
	// again, so it ends with this goroutine, which never unlocks it.
	var running sync.WaitGroup
	running.Go(func() {
		runtime.LockOSThread()
		yield()
		state, err = m.execute(ctx, arguments, read)
	})
	running.Wait()
	return state, err
}

func (m makeRun) execute(ctx context.Context, arguments []string, read func(io.Reader) error) (*os.ProcessState, error) {
	program, err := exec.LookPath("make")
	if err != nil {
		return nil, noTool("make", err)
	}
	// The kernel sends the parent death signal when the thread that has started make ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // no shell, fixed variables
	cmd.Dir = m.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + m.dir, "TMPDIR=" + m.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var force *time.Timer
	cmd.Cancel = func() error {
		force = time.AfterFunc(endLimit, kill)
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	output, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = input, input
	err = cmd.Start()
	_ = input.Close() // make has it
	if err != nil {
		return nil, cmp.Or(ctx.Err(), noTool(program, err))
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		kill() // processes that make has left, which keep the output open
		ended <- err
	}()
	readErr := read(output)
	err = <-ended
	if force != nil {
		force.Stop()
	}
	return cmd.ProcessState, cmp.Or(ctx.Err(), err, readErr)
}

// yield gives the calling thread the lowest priority for processors and disks.
func yield() {
	const (
		lowest      = 19
		ofProcess   = 1       // IOPRIO_WHO_PROCESS
		whileUnused = 3 << 13 // IOPRIO_CLASS_IDLE
	)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, 0, whileUnused)
}

// eachLine calls f for each line, without the tail of lines that are too long.
func eachLine(r io.Reader, f func(line string)) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for tail := false; ; {
		line, more, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !tail {
			f(string(line))
		}
		tail = more
	}
}
