package build

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/pkg/text"
)

const (
	// tailLines is the number of lines that are shown of the output of a failed build.
	tailLines = 40
	maxLine   = 16 << 10
	// maxLog is the largest size of the file with the output, in bytes.
	maxLog = 16 << 20
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
	subject   string
	log       string
	progress  func(done, total int)
}

// arguments returns the arguments for make. Its variables are defined by the Makefile in NVIDIA's
// folder kernel-open. NVIDIA's installer sets them in the same way.
func (m makeRun) arguments() []string {
	jobs := m.jobs
	if jobs < 1 {
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

// run runs make, and reports each object. make and its child processes are killed if ctx or this
// process ends.
func (m makeRun) run(ctx context.Context) error {
	program, err := exec.LookPath("make")
	if err != nil {
		return noTool("make", err)
	}
	// The kernel sends the parent death signal when the thread that has started make ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, m.arguments()...) //nolint:gosec // no shell, fixed variables
	cmd.Dir = m.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + m.dir, "TMPDIR=" + m.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return noTool(program, err)
	}
	tail, readErr := m.follow(output)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return failure(m.subject, m.log, tail, err)
	}
	return readErr
}

// follow reads the output, writes it to the log, counts objects, and returns the last lines. It
// keeps lines with errors even if many other lines follow.
func (m makeRun) follow(output io.Reader) ([]string, error) {
	log, err := os.OpenFile(m.log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, errors.Join(err, drain(output))
	}
	total, done := m.estimate(), 0
	object := regexp.MustCompile(`^\s*\[?\s*CC\s.*\.[oc]\b|^\s*\[ CC\s`)
	failed := regexp.MustCompile(`error:|\*\*\* |No space left|Killed|not found`)
	var tail, errs []string
	written := 0
	lines := bufio.NewReaderSize(output, maxLine)
	m.progress(0, total)
	for {
		line, _, err := lines.ReadLine()
		if err != nil {
			break
		}
		shown := text.Printable(strings.ReplaceAll(string(line), "\t", " "))
		if written += len(shown) + 1; written < maxLog {
			if _, err := log.WriteString(shown + "\n"); err != nil {
				written = maxLog // a full disk is the build's error, not the log's
			}
		}
		if failed.MatchString(shown) && len(errs) < tailLines/4 {
			errs = append(errs, shown)
		}
		if tail = append(tail, shown); len(tail) > tailLines {
			tail = tail[1:]
		}
		if object.MatchString(shown) {
			done++
			total = max(total, done)
			m.progress(done, total)
		}
	}
	return merge(errs, tail), log.Close()
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// merge puts the errors that tail does not have in front of tail.
func merge(errs, tail []string) []string {
	has := map[string]bool{}
	for _, line := range tail {
		has[line] = true
	}
	var first []string
	for _, line := range errs {
		if !has[line] {
			first = append(first, line)
		}
	}
	return append(first, tail...)
}

// estimate returns the expected number of objects: one for each file that a Kbuild file names,
// and one for each module. The real number depends on the configuration.
func (m makeRun) estimate() int {
	named := regexp.MustCompile(`[\w/.-]+\.[co]\b`)
	objects := map[string]bool{}
	err := filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.Contains(e.Name(), "Kbuild") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			code, _, _ := strings.Cut(line, "#")
			for _, name := range named.FindAllString(code, -1) {
				objects[name[:len(name)-2]] = true
			}
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return len(objects)
}
