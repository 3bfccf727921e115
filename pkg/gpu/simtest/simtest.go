// Package simtest makes simulated nodes for tests, with the program gpu-sim in the project's bin
// folder. Unlike package gputest, such a node has files, and NVML at the C ABI.
package simtest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Node is a simulated node in a folder that is removed after the test.
type Node struct {
	// Bin is the folder with gpu-sim. Its subfolder lib has the libraries.
	Bin string
	// Root is the node's folder, with dev, proc, sys and the driver.
	Root string

	t testing.TB
}

// New creates a node, for example with "--gpus=8". It skips the test if the node cannot be created.
func New(t testing.TB, args ...string) *Node {
	t.Helper()
	n := &Node{Bin: binaries(t), Root: filepath.Join(t.TempDir(), "node"), t: t}
	n.Run(append([]string{"create"}, args...)...)
	t.Cleanup(func() { n.Run("delete") })
	return n
}

// Models returns the models that gpu-sim can simulate. It skips the test if the simulator is missing.
func Models(t testing.TB) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(binaries(t), "gpu-sim"), "create", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	list := modelList.FindSubmatch(out)
	if list == nil {
		t.Fatalf("the help of gpu-sim create lists no models:\n%s", out)
	}
	return strings.Split(string(list[1]), ", ")
}

// modelList matches the list of models in the help of gpu-sim create.
var modelList = regexp.MustCompile(`--model.*product: (.*) \(default`)

// Run runs a command of gpu-sim on the node, and returns its output. The first argument is the
// command.
func (n *Node) Run(args ...string) []byte {
	n.t.Helper()
	// Do not use the test's context, because it has ended when the node is deleted.
	cmd := n.sim(context.WithoutCancel(n.t.Context()), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("gpu-sim %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// Calls returns the number of calls of each symbol of NVML since the last Calls, by all programs of
// the node.
func (n *Node) Calls() map[string]int {
	n.t.Helper()
	var calls map[string]int
	if err := json.Unmarshal(n.Run("calls", "--json", "--reset"), &calls); err != nil {
		n.t.Fatal(err)
	}
	return calls
}

// Called reports whether NVML was called since the counters were reset. It does not reset them,
// because a call at the same moment would be lost.
func (n *Node) Called() bool {
	n.t.Helper()
	return strings.Contains(string(n.Run("calls")), "nvml")
}

// Command returns a command that runs a program with arguments in the node.
func (n *Node) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return n.sim(ctx, append([]string{"exec", "--", program}, args...)...)
}

// sim returns a command that runs a command of gpu-sim on the node. The first argument is the
// command of gpu-sim.
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
