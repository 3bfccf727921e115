//go:build e2e

// Package e2e_test runs our charts on a real Kubernetes whose second node has
// simulated GPUs. All tests share one cluster and run one after the other.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

const (
	gpus = 8
	// limit is for what takes seconds on an idle machine.
	limit = 10 * time.Minute
)

// shared is the cluster that the tests run on. TestMain sets it.
var shared *stack.Stack

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	shared, err = stack.Fresh(ctx, cluster.Config{Nodes: 2, GPUNodes: 1, GPUs: gpus, Model: "h100-80", Progress: os.Stderr})
	if shared != nil {
		defer func() {
			if downErr := shared.Down(context.WithoutCancel(ctx)); downErr != nil {
				err = errors.Join(err, downErr)
			}
		}()
	}
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// gpuNode is the node with GPUs.
func gpuNode() string { return shared.GPUNodes()[0] }

// plugin installs the device plugin afresh: its view of the GPUs' health
// begins with it.
func plugin(t *testing.T) {
	t.Helper()
	pluginWith(t)
	allocatable(t, gpus, limit)
}

// pluginWith installs the device plugin afresh, with values of its chart.
func pluginWith(t *testing.T, values ...string) {
	t.Helper()
	if err := shared.Uninstall(t.Context(), "device-plugin"); err != nil {
		t.Fatal(err)
	}
	if err := shared.InstallDevicePlugin(t.Context(), values...); err != nil {
		t.Fatal(err)
	}
}

// allocatable waits until the kubelet advertises n GPUs.
func allocatable(t *testing.T, n int, within time.Duration) {
	t.Helper()
	advertised(t, stack.GPU, n, within)
}

// advertised waits until the kubelet advertises n of a resource.
func advertised(t *testing.T, resource string, n int, within time.Duration) {
	t.Helper()
	if err := shared.WaitAllocatable(t.Context(), gpuNode(), resource, n, within); err != nil {
		t.Fatalf("%s: %v", resource, err)
	}
}

// simulate changes the simulated GPUs of the GPU node.
func simulate(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := shared.Simulate(t.Context(), gpuNode(), command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubectl runs kubectl and returns what it printed, without the white space
// around it.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := shared.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// pluginPod is the name of the plugin's pod on the GPU node.
func pluginPod(t *testing.T) string {
	t.Helper()
	return kubectl(t, "-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name=device-plugin",
		"--field-selector=spec.nodeName="+gpuNode(), "-o", "jsonpath={.items[*].metadata.name}")
}
