package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// OnceCommand is the subcommand of this program that calls RunOnce with its arguments.
const OnceCommand = "once"

// Spent is the time and memory that a finished program used.
type Spent struct {
	// Wall is the time from its start to its end.
	Wall time.Duration `json:"wall"`
	// Peak is its largest resident memory, in MiB.
	Peak float64 `json:"peak"`
}

// Once runs a program to its end. A small child process of this program starts it, because the
// kernel includes the memory of the starting process in the peak.
func Once(ctx context.Context, line ...string) (s Spent, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("find bench: %w", err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{OnceCommand, "--"}, line...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("read time and memory of %s: %w", line[0], err)
	}
	return s, nil
}

// RunOnce runs a program to its end, and writes its time and memory to out.
func RunOnce(ctx context.Context, line []string, out, errs io.Writer) error {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stderr = errs
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	s := Spent{Wall: time.Since(begin)}
	child, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("read the memory of a finished process: not supported on this system")
	}
	own, err := memoryOf(os.Getpid())
	if err != nil {
		return err
	}
	// The kernel counts pages on each processor, and adds the counts up from time to time.
	const inexact = 1 // MiB
	if s.Peak = float64(child.Maxrss) / 1024; s.Peak <= own.Peak+inexact {
		return fmt.Errorf("read the memory of %s: its peak is not clearly above the %.1f MiB of the process that started it", line[0], own.Peak)
	}
	return json.NewEncoder(out).Encode(s)
}
