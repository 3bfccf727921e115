//go:build e2e

package engines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/test/e2e/stack"
)

// gpus is how many GPUs a simulated node has.
const gpus = 8

// limit is how long a container may take for anything.
const limit = 30 * time.Second

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not within %s", limit))
	t.Cleanup(cancel)
	return ctx
}

// node is a simulated node.
type node struct {
	sim  string
	root string
	// tools are programs to install on it.
	tools []string
}

func newNode(t *testing.T) *node {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{sim: filepath.Join(root, "bin", "gpu-sim"), root: filepath.Join(shortDir(t), "node")}
	if _, err := os.Stat(n.sim); err != nil {
		t.Skipf("needs the simulated node: %v (run: make sim)", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: the simulated node has device nodes")
	}
	n.run(t, "create", "--name", "docker", "--model", "h100-80", "--gpus", fmt.Sprint(gpus))
	t.Cleanup(func() { n.run(t, "delete") })
	return n
}

// newToolkitNode returns a node with the tools of the container toolkit.
func newToolkitNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	for _, name := range []string{
		"nvidia-cdi-hook", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk", "toolkit-gpus",
	} {
		tool := filepath.Join(filepath.Dir(n.sim), name)
		if _, err := os.Stat(tool); err != nil {
			t.Skipf("needs the container toolkit: %v (run: make build)", err)
		}
		n.tools = append(n.tools, tool)
	}
	return n
}

// run runs gpu-sim on the node, such as "mig create", and returns what it printed.
func (n *node) run(t *testing.T, command string, args ...string) string {
	t.Helper()
	stdout, stderr, err := try(t, nil, slices.Concat([]string{n.sim}, strings.Fields(command), []string{"--root", n.root}, args)...)
	if err != nil {
		t.Fatalf("gpu-sim %s %v: %v: %s", command, args, err, stderr)
	}
	return stdout
}

// uuids returns the UUIDs of the GPUs at the indices.
func (n *node) uuids(t *testing.T, indices ...int) []string {
	t.Helper()
	var shown struct{ GPUs []struct{ UUID string } }
	if err := json.Unmarshal([]byte(n.run(t, "show", "--json")), &shown); err != nil || len(shown.GPUs) != gpus {
		t.Fatalf("gpu-sim show: %d GPUs, %v", len(shown.GPUs), err)
	}
	var out []string
	for _, i := range indices {
		out = append(out, shown.GPUs[i].UUID)
	}
	return out
}

// driver are the options that show the installed driver to a container. The
// kernel's files are in every container where the driver is real, and here only
// below the mounted root.
func driver() []string {
	return append([]string{"-v", "/:/driver-root:ro"}, kernel()...)
}

func kernel() []string {
	return []string{"-e", "PROC_ROOT=/driver-root/proc", "-e", "SYS_ROOT=/driver-root/sys"}
}

// devices are the options that give a container the control node and the first
// n GPUs.
func devices(n int) []string {
	out := []string{"--device", "/dev/nvidiactl"}
	for i := range n {
		out = append(out, "--device", fmt.Sprintf("/dev/nvidia%d", i))
	}
	return out
}

// newKubelet starts a kubelet outside of all containers.
func newKubelet(t *testing.T) (k *kubelettest.Kubelet, dir string) {
	t.Helper()
	dir = shortDir(t)
	k, err := kubelettest.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	return k, dir
}
