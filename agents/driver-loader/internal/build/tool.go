package build

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/pkg/text"
)

// maxOutput is the largest output of a program that is kept, in bytes.
const maxOutput = 8 << 20

// tool runs a program whose output is needed only for errors.
func tool(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, "", name, args...)
	return err
}

// output runs a program, without a shell, and returns its standard output. If dir is empty, the
// program runs in the current folder. The error has the line of the output that explains it. The
// program and its child processes are killed when ctx ends.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd, err := command(ctx, dir, name, args...)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limitedWriter{w: &out, left: maxOutput}, &limitedWriter{w: &errs, left: maxOutput}
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return out.Bytes(), &toolError{name: name, err: err, output: errs.String() + out.String()}
	}
	return out.Bytes(), nil
}

func command(ctx context.Context, dir, name string, args ...string) (*exec.Cmd, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, noTool(name, err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd, nil
}

// toolError is the error of a program that failed.
type toolError struct {
	name   string
	err    error
	output string
}

// Error returns the line that explains the failure: for dnf the line with the address, for apt the
// line about the signature or the first error, and for other programs the first line.
func (e *toolError) Error() string {
	lines := strings.Split(e.output, "\n")
	line := ""
	for _, mark := range []string{"Curl error", "GPG error", "E: ", "Error: ", ""} {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) != "" && strings.Contains(l, mark) })
		if at >= 0 {
			line = strings.TrimSpace(lines[at])
			break
		}
	}
	return text.Cut(text.Printable(fmt.Sprintf("%s: %v: %s", e.name, e.err, line)), 500)
}

func (e *toolError) Unwrap() error { return e.err }

// limitedWriter discards everything after a number of bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.left)]
	l.left -= len(keep)
	if _, err := l.w.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}
