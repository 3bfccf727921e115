//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// exporter installs the DCGM exporter until the test ends, and returns what scrapes it.
func exporter(t *testing.T, values ...string) (scrape func() string) {
	t.Helper()
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "dcgm-exporter"); err != nil {
			t.Error(err)
		}
	})
	release, err := shared.Agent("dcgm-exporter", values...)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	return func() string {
		address := kubectl(t, "-n", stack.Namespace, "get", "pod", "--selector=app=nvidia-dcgm-exporter",
			"--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].status.podIP}")
		return onGPUNode(t, "busybox wget -q -O - http://"+address+":9400/metrics")
	}
}

// series returns the values of the metrics with a name whose labels contain all parts.
func series(scraped, name string, parts ...string) (values []float64) {
	for line := range strings.Lines(scraped) {
		labels, ok := strings.CutPrefix(line, name+"{")
		if !ok {
			continue
		}
		end := strings.LastIndex(labels, "} ")
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(labels[:end], part) }) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(labels[end+2:]), 64)
		if err == nil {
			values = append(values, value)
		}
	}
	return values
}

// TestExporter gives pods GPUs, one of which two pods share, and reads in the metrics who uses what.
func TestExporter(t *testing.T) {
	pluginWith(t, timeSlicing)
	allocatable(t, 2*gpus, limit)
	scrape := exporter(t, "collectInterval=1000", "hostPID=true")
	eventually(t, "all GPUs are up", func() bool {
		up := series(scrape(), "gpu_up")
		return len(up) == gpus && slices.Min(up) == 1
	})
	holders := hold(t, stack.GPU, gpus+1)
	byGPU := map[string][]string{}
	for i, nodes := range holders {
		byGPU[nodes[0]] = append(byGPU[nodes[0]], fmt.Sprintf("holder-nvidia-com-gpu-1-%d", i))
	}
	for device, pods := range byGPU {
		minor := strings.TrimPrefix(device, "/dev/nvidia")
		if len(pods) == 1 {
			t.Run("a pod with a GPU of its own", func(t *testing.T) { ownGPU(t, scrape, pods[0], minor) })
		} else {
			t.Run("pods that share a GPU", func(t *testing.T) { sharedGPU(t, scrape, pods, minor) })
		}
	}
	t.Run("an error of a GPU", func(t *testing.T) {
		before := scrape()
		simulate(t, "xid", "0", "31")
		eventually(t, "it is counted", func() bool {
			was, is := series(before, "gpu_xid_errors_total", `gpu="0"`, `xid="31"`), series(scrape(), "gpu_xid_errors_total", `gpu="0"`, `xid="31"`)
			return len(was) == 1 && len(is) == 1 && is[0] == was[0]+1
		})
	})
}

// ownGPU checks the metrics of a pod that has a GPU for itself.
func ownGPU(t *testing.T, scrape func() string, pod, minor string) {
	labels := []string{`device="nvidia` + minor + `"`, `namespace="default"`, `pod="` + pod + `"`, `container="shell"`}
	eventually(t, "the metrics have the pod", func() bool {
		return len(series(scrape(), "DCGM_FI_DEV_GPU_TEMP", labels...)) == 1
	})
	simulate(t, "set", minor+".utilization-gpu=60")
	t.Cleanup(func() {
		if _, err := shared.Simulate(context.WithoutCancel(t.Context()), gpuNode(), "set", minor+".utilization-gpu=0"); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the time in which the pod keeps the GPU busy is counted", func() bool {
		now := scrape()
		busy, has := series(now, "gpu_pod_sm_seconds_total", labels...), series(now, "gpu_pod_allocated_seconds_total", labels...)
		return len(busy) == 1 && len(has) == 1 && busy[0] > 0 && busy[0] < has[0]
	})
}

// sharedGPU checks that each of the pods that share a GPU has what its own processes use.
func sharedGPU(t *testing.T, scrape func() string, pods []string, minor string) {
	device := `device="nvidia` + minor + `"`
	if got := series(scrape(), "DCGM_FI_DEV_GPU_TEMP", device, `pod=`); len(got) > 0 {
		t.Error("the temperature of a shared GPU is that of a pod")
	}
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	node, err := shared.GPUSim(gpuNode())
	if err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		uid := kubectl(t, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
		// The process of the pod's container, in the PID namespace of the node.
		pid := onGPUNode(t, "for p in $(busybox pidof sleep); do grep -q -e '"+uid+"' -e '"+strings.ReplaceAll(uid, "-", "_")+"' /proc/$p/cgroup && echo $p; done; true")
		if pid == "" || strings.ContainsAny(pid, " \n") {
			t.Fatalf("pod %s has the processes %q, want one", pod, pid)
		}
		onGPUNode(t, fmt.Sprintf("%s/bin/gpu-sim proc add --root %s --pid %s --sm %d --memory %d %s", root, node, pid, 20+40*i, 1000*(i+1), minor))
		t.Cleanup(func() {
			// The simulated process does not end with the real one, whose PID is of another namespace.
			end := fmt.Sprintf("%s/bin/gpu-sim proc end --root %s %s %s", root, node, minor, pid)
			if _, err := shared.Exec(context.WithoutCancel(t.Context()), gpuNode(), "sh", "-c", end); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "each pod has its own use", func() bool {
		now := scrape()
		var busy []float64
		for i, pod := range pods {
			memory := series(now, "gpu_pod_memory_bytes", device, `pod="`+pod+`"`)
			busy = append(busy, series(now, "gpu_pod_sm_seconds_total", device, `pod="`+pod+`"`)...)
			if len(memory) != 1 || memory[0] != float64(1000*(i+1)<<20) {
				return false
			}
		}
		// The second is three times as busy as the first.
		return len(busy) == 2 && busy[0] > 1 && busy[1] > 2*busy[0] && busy[1] < 4*busy[0]
	})
}
