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
	"strconv"
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
	root, err := os.MkdirTemp(runDir, "bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder of the node: %w", err)
	}
	node := &Node{Bin: bin, Root: filepath.Join(root, "node")}
	if err := node.create(ctx, n); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return node, nil
}

// Open returns the node at root, in whose mount namespace this process runs. It
// gives that a /run of its own, which holds what agents write and what a pod is
// given, and lies in memory, as on a node, whatever it is on this machine: a disk
// takes its time to sync.
func Open(bin, root string) (*Node, error) {
	n := &Node{Bin: bin, Root: root}
	if err := n.ownRun(); err != nil {
		return nil, fmt.Errorf("mount a folder of the agents' own at %s: %w", runDir, err)
	}
	return n, os.MkdirAll(workDir, 0o755)
}

const (
	runDir = "/run"
	// workDir is the folder of what the agents write.
	workDir = runDir + "/work"
)

// ownRun lays an empty folder over /run, in which only the node is.
func (n *Node) ownRun() (err error) {
	there := filepath.Dir(n.Root)
	fd, err := unix.OpenTree(unix.AT_FDCWD, there, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Mount("tmpfs", runDir, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	if err := os.MkdirAll(there, 0o755); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, there, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

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
	dir := filepath.Join(workDir, name)
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

// Latencies are how long every NVML call takes when agents are measured: nothing,
// which shows what is ours, and about as long as on hardware.
func Latencies() []time.Duration { return []time.Duration{0, 10 * time.Microsecond} }

// AtLatencies calls do while every NVML call takes each of Latencies.
func (n *Node) AtLatencies(ctx context.Context, do func(latency time.Duration) error) error {
	for _, latency := range Latencies() {
		if err := n.setLatency(ctx, latency); err != nil {
			return err
		}
		if err := do(latency); err != nil {
			return err
		}
	}
	return n.setLatency(ctx, 0)
}

func (n *Node) setLatency(ctx context.Context, d time.Duration) error {
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

// Unplug takes the GPUs away that were added last.
func (n *Node) Unplug(ctx context.Context, count int) error {
	out, err := n.sim(ctx, "show", "--json")
	if err != nil {
		return err
	}
	var shown struct {
		GPUs []json.RawMessage `json:"gpus"`
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		return fmt.Errorf("read gpu-sim show: %w", err)
	}
	for i := range count {
		if _, err := n.sim(ctx, "unplug", strconv.Itoa(len(shown.GPUs)-1-i)); err != nil {
			return err
		}
	}
	return nil
}

// Divide gives each GPU seven MIG devices.
func (n *Node) Divide(ctx context.Context) error {
	if err := n.SetMIG(ctx, "all", "on"); err != nil {
		return err
	}
	_, err := n.sim(ctx, append([]string{"mig", "create", "all"}, slices.Repeat([]string{"1g.5gb"}, 7)...)...)
	return err
}

// Undivide makes each GPU a whole one again.
func (n *Node) Undivide(ctx context.Context) error { return n.SetMIG(ctx, "all", "off") }

// SetMIG switches the MIG mode of a GPU, or of "all", to "on" or "off", which
// takes a reset.
func (n *Node) SetMIG(ctx context.Context, gpu, mode string) error {
	if _, err := n.sim(ctx, "mig", "mode", gpu, mode); err != nil {
		return err
	}
	_, err := n.sim(ctx, "reset", "--takes", "0s", gpu)
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

// CallCount returns how many NVML calls were made since it was last called,
// without those by which events are waited for: that goes on all the time.
func (n *Node) CallCount(ctx context.Context) (int, error) {
	out, err := n.sim(ctx, "calls", "--json", "--reset")
	if err != nil {
		return 0, err
	}
	var calls map[string]int
	if err := json.Unmarshal(out, &calls); err != nil {
		return 0, fmt.Errorf("read calls: %w", err)
	}
	count := 0
	for symbol, times := range calls {
		if symbol != "nvmlEventSetWait_v2" {
			count += times
		}
	}
	return count, nil
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
