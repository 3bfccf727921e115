// Package simtest makes simulated nodes for tests, with the gpu-sim of the
// project's bin folder. Such a node has what package gputest lacks: files, and NVML
// at the C ABI.
package simtest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Node is a simulated node in a folder that is removed after the test.
type Node struct {
	// Bin is the folder with gpu-sim, and with lib, which has the libraries.
	Bin string
	// Root is the node's folder, with dev, proc, sys and the driver.
	Root string

	t testing.TB
}

// New creates a node, for example with "--gpus=8". It skips the test if it cannot.
func New(t testing.TB, args ...string) *Node {
	t.Helper()
	n := &Node{Bin: binaries(t), Root: filepath.Join(t.TempDir(), "node"), t: t}
	n.Run(append([]string{"create"}, args...)...)
	t.Cleanup(func() { n.Run("delete") })
	return n
}

// Run runs a command of gpu-sim, the first argument, on the node, and returns
// its output.
func (n *Node) Run(args ...string) []byte {
	n.t.Helper()
	// Not the test's context: it has ended when the node is deleted.
	cmd := n.sim(context.WithoutCancel(n.t.Context()), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("gpu-sim %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// Calls returns how often each symbol of NVML was called since the last Calls,
// by all programs of the node.
func (n *Node) Calls() map[string]int {
	n.t.Helper()
	var calls map[string]int
	if err := json.Unmarshal(n.Run("calls", "--json", "--reset"), &calls); err != nil {
		n.t.Fatal(err)
	}
	return calls
}

// Called reports whether NVML was called since the counters were reset. It does
// not reset them: a call at this moment would be lost.
func (n *Node) Called() bool {
	n.t.Helper()
	return strings.Contains(string(n.Run("calls")), "nvml")
}

// Command returns a program with arguments, to be run in the node.
func (n *Node) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return n.sim(ctx, append([]string{"exec", "--", program}, args...)...)
}

// sim is a command of gpu-sim, the first argument, on the node.
func (n *Node) sim(ctx context.Context, args ...string) *exec.Cmd {
	command := append(strings.Fields(args[0]), "--root="+n.Root)
	return exec.CommandContext(ctx, filepath.Join(n.Bin, "gpu-sim"), append(command, args[1:]...)...)
}

// binaries returns the folder with the simulator, or skips the test.
func binaries(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make the device nodes of a simulated node")
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	candidates := []string{os.Getenv("OUTRIGGER_BIN")}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		candidates = append(candidates, filepath.Join(dir, "bin"))
	}
	for _, c := range candidates {
		if _, err := os.Stat(filepath.Join(c, "gpu-sim")); c != "" && err == nil {
			return c
		}
	}
	t.Skip("bin/gpu-sim is missing: build it with `make sim`, or point OUTRIGGER_BIN to it")
	return ""
}
