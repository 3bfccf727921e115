// Package simnode controls gpu-sim: it creates simulated nodes, changes them, and
// counts their NVML calls.
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
	"outrigger.dev/pkg/pace"
)

// Node is a simulated node.
type Node struct {
	// Bin is the folder of the binaries, Root the folder of the node.
	Bin  string
	Root string
}

// Create creates a node with n GPUs.
func Create(ctx context.Context, bin string, n int) (*Node, error) {
	root, err := os.MkdirTemp(runDir, "bench-")
	if err != nil {
		return nil, fmt.Errorf("create folder of the node: %w", err)
	}
	node := &Node{Bin: bin, Root: filepath.Join(root, "node")}
	if err := node.create(ctx, n); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return node, nil
}

// Open returns the node at root. This process runs in the mount namespace of the node. Open mounts
// a separate /run there, for the files of agents and of a pod. It is in memory, as on a real node,
// because a disk would need time to sync.
func Open(bin, root string) (*Node, error) {
	n := &Node{Bin: bin, Root: root}
	if err := n.ownRun(); err != nil {
		return nil, fmt.Errorf("mount a separate folder at %s: %w", runDir, err)
	}
	return n, os.MkdirAll(workDir, 0o755)
}

const (
	runDir = "/run"
	// workDir is the folder for the agents' files.
	workDir = runDir + "/work"
)

// ownRun mounts an empty folder over /run that contains only the node.
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

// Dir returns an empty folder of the node with this name.
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

// Latencies returns the latencies of NVML calls in measurements: 0, which shows only the agent's
// time, and about the latency of hardware.
func Latencies() []time.Duration { return []time.Duration{0, 10 * time.Microsecond} }

// AtLatencies calls the function do once for each of Latencies, while it is in effect.
func (n *Node) AtLatencies(ctx context.Context, do func(latency time.Duration) error) error {
	for _, latency := range Latencies() {
		if err := n.AtLatency(ctx, latency, func() error { return do(latency) }); err != nil {
			return err
		}
	}
	return nil
}

// AtLatency calls the function do while a latency is in effect.
func (n *Node) AtLatency(ctx context.Context, latency time.Duration, do func() error) error {
	if err := n.setLatency(ctx, latency); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return n.setLatency(ctx, 0)
}

// WithoutEvents calls the function do while the driver supports no events.
func (n *Node) WithoutEvents(ctx context.Context, do func() error) error {
	const symbol, notSupported = "nvmlDeviceGetSupportedEventTypes", "3"
	if _, err := n.sim(ctx, "set", symbol+".return="+notSupported); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	_, err := n.sim(ctx, "set", symbol+".return=0")
	return err
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

// Unplug removes the GPUs that were added last.
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

// Partition partitions each GPU into seven MIG devices.
func (n *Node) Partition(ctx context.Context) error {
	if err := n.SetMIG(ctx, "all", "on"); err != nil {
		return err
	}
	_, err := n.sim(ctx, Sevenths()...)
	return err
}

// Sevenths returns the command of gpu-sim that creates seven MIG devices on each GPU in MIG mode.
func Sevenths() []string {
	return append([]string{"mig", "create", "all"}, slices.Repeat([]string{"1g.5gb"}, 7)...)
}

// Unpartition turns MIG mode off on all GPUs.
func (n *Node) Unpartition(ctx context.Context) error { return n.SetMIG(ctx, "all", "off") }

// SetMIG switches the MIG mode of a GPU, or of "all", to "on" or "off". It also resets the GPU,
// which the switch requires.
func (n *Node) SetMIG(ctx context.Context, gpu, mode string) error {
	if _, err := n.sim(ctx, "mig", "mode", gpu, mode); err != nil {
		return err
	}
	_, err := n.sim(ctx, "reset", "--takes", "0s", gpu)
	return err
}

// Snapshot returns the node as the device plugin reads it.
func (n *Node) Snapshot(ctx context.Context) (*gpu.Node, error) {
	out, err := output(exec.CommandContext(ctx, filepath.Join(n.Bin, "device-plugin"), "snapshot"))
	if err != nil {
		return nil, err
	}
	return gpu.Decode(out)
}

// CallCount returns the number of NVML calls since the last count. It excludes calls that wait for
// events, because they never stop.
func (n *Node) CallCount(ctx context.Context) (int, error) {
	calls, err := n.Calls(ctx)
	count := 0
	for symbol, times := range calls {
		if symbol != "nvmlEventSetWait_v2" {
			count += times
		}
	}
	return count, err
}

// CallsDuring returns the number of NVML calls in the next period d, including calls that wait for
// events.
func (n *Node) CallsDuring(ctx context.Context, d time.Duration) (int, error) {
	if _, err := n.Calls(ctx); err != nil {
		return 0, err
	}
	if !pace.Pause(ctx, d) {
		return 0, ctx.Err()
	}
	calls, err := n.Calls(ctx)
	total := 0
	for _, times := range calls {
		total += times
	}
	return total, err
}

// Calls returns the number of calls of each NVML function since the last count.
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
