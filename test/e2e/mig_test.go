//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

const (
	mig1g = "nvidia.com/mig-1g.10gb"
	mig3g = "nvidia.com/mig-3g.40gb"
)

// divide puts the first GPU of the node into MIG mode, with devices of these
// profiles, until the test ends.
func divide(t *testing.T, profiles ...string) {
	t.Helper()
	simulate(t, "mig mode", "0", "on")
	t.Cleanup(func() {
		for _, command := range [][]string{{"mig destroy", "0", "all"}, {"mig mode", "0", "off"}} {
			if _, err := shared.Simulate(context.WithoutCancel(t.Context()), gpuNode(), command[0], command[1:]...); err != nil {
				t.Error(err)
			}
		}
	})
	simulate(t, "mig create", append([]string{"0"}, profiles...)...)
}

func TestMIGPodsComputeOnTheirOwnDevice(t *testing.T) {
	divide(t, "3g.40gb", "1g.10gb", "1g.10gb")
	pluginWith(t, "migStrategy=mixed")
	allocatable(t, gpus-1, limit)
	advertised(t, mig1g, 2, limit)
	advertised(t, mig3g, 1, limit)
	for _, resource := range []string{mig1g, mig3g} {
		result, err := shared.RunPod(t.Context(), stack.Pod{Name: "on-mig", Resource: resource}, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.GPUs) != 1 || !strings.HasPrefix(result.GPUs[0], "MIG-") {
			t.Errorf("a pod with %s saw %v, want one MIG device", resource, result.GPUs)
		}
		if !strings.Contains(result.Log, "Test PASSED") {
			t.Errorf("the log lacks that the test passed:\n%s", result.Log)
		}
	}
	result, err := shared.RunVectorAdd(t.Context(), "beside-mig", limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.GPUs) != 1 || !strings.HasPrefix(result.GPUs[0], "GPU-") {
		t.Errorf("a pod with a whole GPU saw %v", result.GPUs)
	}
}

// settles is how long the kubelet may take to advertise a change of the MIG devices: it
// updates the Node every second. It is less than the pause after which the plugin looks for
// changes that NVML does not report.
const settles = 20 * time.Second

func TestMIGLayoutChangesUnderARunningPlugin(t *testing.T) {
	divide(t, "3g.40gb", "1g.10gb")
	pluginWith(t, "migStrategy=mixed")
	allocatable(t, gpus-1, limit)
	advertised(t, mig3g, 1, limit)
	pod, registrations := pluginPod(t), metric(t, gpuRegistrations)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "-n", stack.Namespace, "logs", pod, "--tail=30")
			t.Logf("the log of device-plugin (error %v):\n%s", err, out)
		}
	})

	simulate(t, "mig destroy", "0", "all")
	simulate(t, "mig create", "0", "1g.10gb", "1g.10gb", "1g.10gb")
	advertised(t, mig1g, 3, settles)
	// A resource that is gone is empty: the kubelet forgets its name later.
	advertised(t, mig3g, 0, settles)
	if _, err := shared.RunPod(t.Context(), stack.Pod{Name: "on-new-mig", Resource: mig1g}, limit); err != nil {
		t.Error(err)
	}
	simulate(t, "mig destroy", "0", "all")
	simulate(t, "mig mode", "0", "off")
	allocatable(t, gpus, settles)
	advertised(t, mig1g, 0, settles)
	simulate(t, "mig mode", "0", "on")
	simulate(t, "mig create", "0", "3g.40gb")
	allocatable(t, gpus-1, settles)
	advertised(t, mig3g, 1, settles)

	if now := pluginPod(t); now != pod {
		t.Errorf("pod %s became %s, want the same pod", pod, now)
	}
	// What did not change was left alone.
	if now := metric(t, gpuRegistrations); now != registrations {
		t.Errorf("registrations of %s went from %q to %q, want no other", stack.GPU, registrations, now)
	}
}
