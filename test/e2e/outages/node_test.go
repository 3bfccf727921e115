//go:build e2e

package outages_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// simulator runs commands of gpu-sim in a few processes, since a process for each would take
// most of the time.
type simulator struct {
	bin  string
	idle chan *batch
	// users is the number of the last user of a node, beyond those that machines have.
	users atomic.Int32
}

// batch is one gpu-sim batch.
type batch struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err bytes.Buffer
}

func newSimulator(t *testing.T, bin string, processes int) *simulator {
	t.Helper()
	s := &simulator{bin: bin, idle: make(chan *batch, processes)}
	const first = 1 << 30
	s.users.Store(first)
	for range processes {
		b := &batch{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "gpu-sim"), "batch")}
		b.cmd.Stderr = &b.err
		in, err := b.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		b.in, b.out = in, bufio.NewScanner(out)
		s.idle <- b
		t.Cleanup(func() {
			if err := errors.Join(b.in.Close(), b.cmd.Wait()); err != nil {
				t.Errorf("gpu-sim batch: %v: %s", err, b.err.String())
			}
		})
	}
	return s
}

// run runs one command and returns its output.
func (s *simulator) run(words ...string) (string, error) {
	b := <-s.idle
	defer func() { s.idle <- b }()
	line := strings.Join(words, " ")
	if _, err := fmt.Fprintln(b.in, line); err != nil {
		return "", fmt.Errorf("gpu-sim %s: %w", line, err)
	}
	var out strings.Builder
	for b.out.Scan() {
		if b.out.Text() == "ok" {
			return out.String(), nil
		}
		fmt.Fprintln(&out, b.out.Text())
	}
	return "", fmt.Errorf("gpu-sim %s: the batch has ended", line)
}

// node is a simulated node with GPU 1 in MIG mode, used by one agent after the other. All nodes
// have the same GPUs.
type node struct {
	sim  *simulator
	root string
	// user is whom the agents of the node run as.
	user int
}

// create creates a node at root.
func (s *simulator) create(root string) (*node, error) {
	n := &node{sim: s, root: root, user: int(s.users.Add(1))}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return nil, err
	}
	return n, errors.Join(
		n.run("create", "--name=outages", "--gpus=4", "--model=h100-80"),
		n.run("mig mode", "1", "on"),
	)
}

// run runs a command of gpu-sim on the node.
func (n *node) run(command string, args ...string) error {
	_, err := n.output(command, args...)
	return err
}

func (n *node) output(command string, args ...string) (string, error) {
	return n.sim.run(append(append(strings.Fields(command), "--root="+n.root), args...)...)
}

// calls returns how often each symbol of NVML was called since the node was created.
func (n *node) calls() (map[string]int, error) {
	out, err := n.output("calls", "--json")
	if err != nil {
		return nil, err
	}
	var calls map[string]int
	return calls, json.Unmarshal([]byte(out), &calls)
}

// answer sets what a symbol of NVML returns: 0 is what it returns by itself.
func (n *node) answer(symbol string, code int) error {
	return n.run("set", fmt.Sprintf("%s.return=%d", symbol, code))
}

// divide divides GPU 1 as it is at the start of an agent.
func (n *node) divide() error {
	return errors.Join(n.run("mig destroy", "1", "all"), n.run("mig create", "1", "1g.10gb+me", "2g.20gb"))
}

// change changes what an agent publishes: it makes another MIG device, and restore removes it.
func (n *node) change() error { return n.run("mig create", "1", "1g.10gb@0") }

func (n *node) restore() error { return n.run("mig destroy", "1", "7") }
