// Package simnode drives gpu-sim: it makes simulated nodes, changes them, and
// counts the NVML calls on them.
package simnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu"
)

// Node is a simulated node.
type Node struct {
	// Bin is the folder of the binaries, Root that of the node.
	Bin  string
	Root string
}

// Create makes a node with n GPUs.
func Create(ctx context.Context, bin string, n int) (*Node, error) {
	for _, name := range []string{"gpu-sim", "device-plugin"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("find binary: %w (build it: make build)", err)
		}
	}
	root, err := os.MkdirTemp("/run", "bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder of the node: %w", err)
	}
	node := &Node{Bin: bin, Root: filepath.Join(root, "node")}
	if err := node.create(ctx, n); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return node, nil
}

// Open returns the node at root, in whose mount namespace this process runs.
// What the agents write lies in memory, as /run does on a node, whatever it is
// on this machine: a disk takes its time to sync.
func Open(bin, root string) (*Node, error) {
	n := &Node{Bin: bin, Root: root}
	if err := os.MkdirAll(n.work(), 0o755); err != nil {
		return nil, fmt.Errorf("make folder for the agents: %w", err)
	}
	if err := unix.Mount("tmpfs", n.work(), "tmpfs", 0, "mode=0755"); err != nil {
		return nil, fmt.Errorf("mount folder for the agents at %s: %w", n.work(), err)
	}
	return n, nil
}

// work is the folder of what the agents write.
func (n *Node) work() string { return filepath.Join(filepath.Dir(n.Root), "work") }

func (n *Node) create(ctx context.Context, gpus int) error {
	_, err := n.sim(ctx, "create", "--gpus", fmt.Sprint(gpus), "--model", "a100-40")
	return err
}

// Delete removes the node and its folder.
func (n *Node) Delete(ctx context.Context) error {
	_, err := n.sim(ctx, "delete")
	return errors.Join(err, os.RemoveAll(filepath.Dir(n.Root)))
}

// Dir returns a folder of the node's own for a purpose, empty.
func (n *Node) Dir(name string) (string, error) {
	dir := filepath.Join(n.work(), name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// RunSelf runs this program in the node, with args.
func (n *Node) RunSelf(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find bench: %w", err)
	}
	cmd := exec.CommandContext(ctx, n.tool(), append([]string{"exec", "--root", n.Root, "--", self}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure in the simulated node: %w", err)
	}
	return nil
}

// SetLatency makes every NVML call take that long.
func (n *Node) SetLatency(ctx context.Context, d time.Duration) error {
	_, err := n.sim(ctx, "set", "latency="+d.String())
	return err
}

// Plug adds GPUs.
func (n *Node) Plug(ctx context.Context, count int) error {
	for range count {
		if _, err := n.sim(ctx, "plug"); err != nil {
			return err
		}
	}
	return nil
}

// Divide gives each GPU seven MIG devices.
func (n *Node) Divide(ctx context.Context) error {
	if err := n.setMIG(ctx, "on"); err != nil {
		return err
	}
	_, err := n.sim(ctx, append([]string{"mig", "create", "all"}, slices.Repeat([]string{"1g.5gb"}, 7)...)...)
	return err
}

// Undivide makes each GPU a whole one again.
func (n *Node) Undivide(ctx context.Context) error { return n.setMIG(ctx, "off") }

// setMIG switches the MIG mode of all GPUs, which takes a reset.
func (n *Node) setMIG(ctx context.Context, mode string) error {
	if _, err := n.sim(ctx, "mig", "mode", "all", mode); err != nil {
		return err
	}
	_, err := n.sim(ctx, "reset", "--takes", "0s", "all")
	return err
}

// Snapshot returns what the device plugin reads of the node's GPUs.
func (n *Node) Snapshot(ctx context.Context) (*gpu.Node, error) {
	out, err := output(exec.CommandContext(ctx, filepath.Join(n.Bin, "device-plugin"), "snapshot"))
	if err != nil {
		return nil, err
	}
	return gpu.Decode(out)
}

// Calls returns how often each NVML symbol was called since the last Calls.
func (n *Node) Calls(ctx context.Context) (map[string]int, error) {
	out, err := n.sim(ctx, "calls", "--json", "--reset")
	if err != nil {
		return nil, err
	}
	var calls map[string]int
	if err := json.Unmarshal(out, &calls); err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	return calls, nil
}

// sim runs a command of gpu-sim on the node.
func (n *Node) sim(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, n.tool(), args...)
	cmd.Env = append(cmd.Environ(), "GPU_SIM_ROOT="+n.Root)
	return output(cmd)
}

func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

func (n *Node) tool() string { return filepath.Join(n.Bin, "gpu-sim") }
