//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

func TestAGPUIsTakenAwayByAnXIDAndComesBack(t *testing.T) {
	plugin(t)
	holders := hold(t, stack.GPU+"@8", 1)
	if len(holders[0]) != gpus {
		t.Fatalf("the pod has GPUs %v, want all %d", holders[0], gpus)
	}
	simulate(t, "xid", "3", "79")
	allocatable(t, gpus-1, 10*time.Second)
	pod := "holder-nvidia-com-gpu-8-0"
	// The kubelet reports it in the pod's status (ResourceHealthStatus).
	health := func() string {
		return kubectl(t, "get", "pod", pod, "-o",
			"jsonpath={.status.containerStatuses[0].allocatedResourcesStatus[0].resources[*].health}")
	}
	eventually(t, "the pod's status shows the unhealthy GPU", func() bool { return strings.Count(health(), "Unhealthy") == 1 })
	eventually(t, "an Event of the node names the XID", func() bool {
		events := kubectl(t, "describe", "node", gpuNode())
		return strings.Contains(events, "DeviceUnhealthy") && strings.Contains(events, "xid 79")
	})
	kubectl(t, "delete", "pod", pod, "--wait")

	simulate(t, "reset", "3")
	allocatable(t, gpus, 15*time.Second)
	eventually(t, "an Event of the node reports that the GPU is healthy again", func() bool {
		return strings.Contains(kubectl(t, "describe", "node", gpuNode()), "DeviceHealthy")
	})
	if _, err := shared.RunPod(t.Context(), stack.Pod{Name: "after-recovery", Count: gpus}, limit); err != nil {
		t.Error(err)
	}
}
