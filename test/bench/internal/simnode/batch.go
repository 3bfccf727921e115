package simnode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Batch is a gpu-sim process that runs one command after the other, so that a
// measurement does not include the start of a process.
type Batch struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// Batch starts a Batch for the node. Close ends it.
func (n *Node) Batch(ctx context.Context) (*Batch, error) {
	b := &Batch{cmd: exec.CommandContext(ctx, n.tool(), "batch")}
	b.cmd.Env = append(b.cmd.Environ(), "GPU_SIM_ROOT="+n.Root)
	b.cmd.Stderr = &b.stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start gpu-sim batch: %w", err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start gpu-sim batch: %w", err)
	}
	b.in, b.out = in, bufio.NewScanner(out)
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start gpu-sim batch: %w", err)
	}
	return b, nil
}

// Do runs one command and returns when it has ended.
func (b *Batch) Do(words ...string) error {
	line := strings.Join(words, " ")
	if _, err := fmt.Fprintln(b.in, line); err != nil {
		return fmt.Errorf("gpu-sim %s: %w", line, err)
	}
	for b.out.Scan() {
		if b.out.Text() == "ok" {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("gpu-sim %s: the batch has ended", line), b.Close())
}

// Close ends the batch.
func (b *Batch) Close() error {
	err := errors.Join(b.in.Close(), b.cmd.Wait())
	if err != nil {
		return fmt.Errorf("end gpu-sim batch: %w: %s", err, strings.TrimSpace(b.stderr.String()))
	}
	return nil
}
