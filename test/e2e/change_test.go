//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// kubectlCleanup runs kubectl after the test's own context has ended.
func kubectlCleanup(t *testing.T, args ...string) {
	t.Helper()
	if _, err := shared.Kubectl(context.WithoutCancel(t.Context()), args...); err != nil {
		t.Error(err)
	}
}

func TestKubeletRestartBringsTheGPUsBack(t *testing.T) {
	plugin(t)
	before := metric(t, "outrigger_device_plugin_registrations_total")
	simulate(t, "calls", "--reset")
	if err := shared.Restart(t.Context(), "kubelet", gpuNode()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin registers with the new kubelet", func() bool {
		return metric(t, "outrigger_device_plugin_registrations_total") != before
	})
	allocatable(t, gpus, limit)

	var calls map[string]uint64
	if err := json.Unmarshal([]byte(simulate(t, "calls", "--json")), &calls); err != nil {
		t.Fatal(err)
	}
	for symbol, n := range calls {
		// Waiting for events goes on all the time.
		if !strings.HasPrefix(symbol, "nvmlEventSetWait") {
			t.Errorf("the kubelet's restart made the plugin call %s %d times, want no call", symbol, n)
		}
	}
	if _, err := shared.RunVectorAdd(t.Context(), "after-restart", limit); err != nil {
		t.Error(err)
	}
}

func TestReloadAndALostSocketDropNothing(t *testing.T) {
	plugin(t)
	const socket = "/var/lib/kubelet/device-plugins/nvidia-gpu.sock"
	before := metric(t, "outrigger_device_plugin_registrations_total")
	node := func(args ...string) error {
		_, err := shared.Exec(t.Context(), gpuNode(), args...)
		return err
	}
	if err := node("rm", socket); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin makes its socket again", func() bool { return node("test", "-S", socket) == nil })
	if err := node("busybox", "killall", "-HUP", "device-plugin"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin has reloaded", func() bool {
		out, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", pluginPod(t))
		return err == nil && strings.Contains(out, `"msg":"reloaded"`)
	})
	// The kubelet still has its stream: registering again would leave it two.
	if after := metric(t, "outrigger_device_plugin_registrations_total"); after != before {
		t.Errorf("registrations went from %q to %q, want no other", before, after)
	}
	allocatable(t, gpus, limit)
	if _, err := shared.RunVectorAdd(t.Context(), "after-reload", limit); err != nil {
		t.Error(err)
	}
}

// gpuRegistrations counts the registrations of whole GPUs with the kubelet.
const gpuRegistrations = `outrigger_device_plugin_registrations_total{resource="nvidia.com/gpu",result="ok"}`

func TestKubeletRestartsInARowLoseNothing(t *testing.T) {
	plugin(t)
	for i := range 6 {
		before := metric(t, gpuRegistrations)
		if err := shared.Restart(t.Context(), "kubelet", gpuNode()); err != nil {
			t.Fatalf("restart %d: %v", i, err)
		}
		eventually(t, "the plugin registers with the new kubelet", func() bool { return metric(t, gpuRegistrations) != before })
		allocatable(t, gpus, limit)
	}
	if _, err := shared.RunVectorAdd(t.Context(), "after-restarts", limit); err != nil {
		t.Error(err)
	}
}

func TestLostGPUAtStartLeavesTheOthers(t *testing.T) {
	simulate(t, "lose", "2")
	t.Cleanup(func() {
		if _, err := shared.Simulate(context.WithoutCancel(t.Context()), gpuNode(), "heal", "2"); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Uninstall(t.Context(), "device-plugin"); err != nil {
		t.Fatal(err)
	}
	if err := shared.InstallDevicePlugin(t.Context()); err != nil {
		t.Fatal(err)
	}
	allocatable(t, gpus-1, limit)
	if _, err := shared.RunVectorAdd(t.Context(), "beside-a-lost-gpu", limit); err != nil {
		t.Error(err)
	}
}

func TestDriverThatComesLateIsPickedUp(t *testing.T) {
	if err := shared.Uninstall(t.Context(), "device-plugin"); err != nil {
		t.Fatal(err)
	}
	simulate(t, "set", "driver=off")
	t.Cleanup(func() {
		if _, err := shared.Simulate(context.WithoutCancel(t.Context()), gpuNode(), "set", "driver=on"); err != nil {
			t.Error(err)
		}
	})
	release, err := shared.DevicePlugin()
	if err != nil {
		t.Fatal(err)
	}
	release.NoWait = true
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin says that it waits", func() bool {
		out, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", "--selector=app.kubernetes.io/name=device-plugin")
		return err == nil && strings.Contains(out, "waiting")
	})
	pod := pluginPod(t)

	simulate(t, "set", "driver=on")
	allocatable(t, gpus, limit)
	if now := pluginPod(t); now != pod {
		t.Errorf("pod %s became %s, want the same pod", pod, now)
	}
	if got := kubectl(t, "-n", stack.Namespace, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the plugin was restarted %s times, want 0", got)
	}
}

// metric returns the line of /metrics of the plugin that begins with name, and
// an empty text while there is none.
func metric(t *testing.T, name string) string {
	t.Helper()
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9410/proxy/metrics", stack.Namespace, pluginPod(t))
	out, err := shared.Kubectl(t.Context(), "get", "--raw", path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, name) {
			return line
		}
	}
	return ""
}

// eventually waits until what is said holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond) // each look is a kubectl, or several
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("wait until %s: it did not within %s", what, limit)
		case <-tick.C:
		}
	}
}
