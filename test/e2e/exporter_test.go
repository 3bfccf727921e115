//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// exporter installs the DCGM exporter until the test ends, and returns what scrapes it.
func exporter(t *testing.T, values ...string) (scrape func() string) {
	t.Helper()
	return exporterOf(t, "", values...)
}

// exporterOf is exporter with a file of values.
func exporterOf(t *testing.T, file string, values ...string) (scrape func() string) {
	t.Helper()
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "dcgm-exporter"); err != nil {
			t.Error(err)
		}
	})
	installExporter(t, file, values...)
	return func() string {
		address := kubectl(t, "-n", stack.Namespace, "get", "pod", "--selector=app=nvidia-dcgm-exporter",
			"--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].status.podIP}")
		return onGPUNode(t, "busybox wget -q -O - http://"+address+":9400/metrics")
	}
}

// installExporter installs the exporter, or changes what is installed.
func installExporter(t *testing.T, file string, values ...string) {
	t.Helper()
	release, err := shared.Agent("dcgm-exporter", values...)
	if err != nil {
		t.Fatal(err)
	}
	release.File = file
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
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
	scrape := exporter(t, "collectInterval=1000", "hostPID=true", "hpcJobMapping.enabled=true", "enablePodUID=true", "enablePodLabels=true",
		"podLabelAllowlistRegex[0]=^example.com/team$")
	eventually(t, "all GPUs are up", func() bool {
		up := series(scrape(), "gpu_up")
		return len(up) == gpus && slices.Min(up) == 1
	})
	holders := hold(t, stack.GPU, gpus+1)
	byGPU := map[string][]string{}
	for i, nodes := range holders {
		byGPU[nodes[0]] = append(byGPU[nodes[0]], fmt.Sprintf("holder-nvidia-com-gpu-1-%d", i))
	}
	alone := ""
	for device, pods := range byGPU {
		minor := strings.TrimPrefix(device, "/dev/nvidia")
		if len(pods) == 1 {
			alone = pods[0]
			t.Run("a pod with a GPU of its own", func(t *testing.T) { ownGPU(t, scrape, pods[0], minor) })
		} else {
			t.Run("pods that share a GPU", func(t *testing.T) { sharedGPU(t, scrape, pods, minor) })
		}
	}
	t.Run("the labels of a pod", func(t *testing.T) { podLabels(t, scrape, alone) })
	t.Run("the job of a GPU", func(t *testing.T) { job(t, scrape, "0") })
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

// podLabels checks that metrics have the labels of a pod that are allowed, and no others.
func podLabels(t *testing.T, scrape func() string, pod string) {
	kubectl(t, "label", "pod", pod, "example.com/team=vision", "example.com/other=hidden")
	uid := kubectl(t, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	eventually(t, "the metrics have the label of the pod that is allowed, and its UID", func() bool {
		return len(series(scrape(), "DCGM_FI_DEV_GPU_TEMP", `pod="`+pod+`"`, `example_com_team="vision"`, `pod_uid="`+uid+`"`)) == 1
	})
	if got := scrape(); strings.Contains(got, "example_com_other") || strings.Contains(got, "hidden") {
		t.Error("a label that is not allowed is served")
	}
}

// job gives a GPU a job as a batch system does, and checks that its metrics have it.
func job(t *testing.T, scrape func() string, index string) {
	const folder = "/var/lib/dcgm-exporter/job-mapping"
	onGPUNode(t, "echo 4711 > "+folder+"/"+index)
	t.Cleanup(func() {
		if _, err := shared.Exec(context.WithoutCancel(t.Context()), gpuNode(), "rm", "-rf", folder); err != nil {
			t.Error(err)
		}
	})
	with := func() []float64 { return series(scrape(), "DCGM_FI_DEV_GPU_TEMP", `gpu="`+index+`"`, `hpc_job="4711"`) }
	eventually(t, "the metrics have the job", func() bool { return len(with()) == 1 })
	onGPUNode(t, "rm "+folder+"/"+index)
	eventually(t, "the metrics have no job", func() bool { return len(with()) == 0 })
}

// withoutPrivileges checks what the exporter can do as the chart documents it for containers without
// privileges. The RuntimeClass nvidia gives them the driver and the GPUs.
func withoutPrivileges(t *testing.T) {
	const values, fast = "../../charts/testdata/dcgm-exporter/unprivileged.values.yaml", "collectInterval=1000"
	scrape := exporterOf(t, values, fast)
	up := func() bool {
		up := series(scrape(), "gpu_up")
		return len(up) == gpus && slices.Min(up) == 1
	}
	eventually(t, "all GPUs are up", up)
	const pod = "--selector=app=nvidia-dcgm-exporter"
	if rights := kubectl(t, "-n", stack.Namespace, "get", "pod", pod, "-o", "jsonpath={.items[0].spec.containers[0].securityContext}"); !strings.Contains(rights, `"drop":["ALL"]`) || !strings.Contains(rights, `"privileged":false`) {
		t.Errorf("the container has the rights %s", rights)
	}
	const name = "beside-the-exporter"
	t.Cleanup(func() { kubectlCleanup(t, "delete", "pod", "--ignore-not-found", "--wait", name) })
	if err := shared.Apply(t.Context(), fmt.Sprintf(holder, name, cluster.BusyboxImage, stack.GPU, "1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the metrics have the pod", func() bool {
		return len(series(scrape(), "DCGM_FI_DEV_GPU_TEMP", `pod="`+name+`"`, `namespace="default"`, `container="shell"`)) == 1
	})
	simulate(t, "xid", "0", "31")
	eventually(t, "an error is counted", func() bool {
		got := series(scrape(), "gpu_xid_errors_total", `gpu="0"`, `xid="31"`)
		return len(got) == 1 && got[0] == 1
	})
	// The kernel's log is not one of the devices of the container.
	if log := kubectl(t, "-n", stack.Namespace, "logs", pod); !strings.Contains(log, "cannot read the kernel's log, not counting the xids") {
		t.Errorf("the log does not say what cannot be read:\n%s", log)
	}
	installExporter(t, values, fast, "securityContext.runAsNonRoot=true", "securityContext.runAsUser=65532")
	eventually(t, "all GPUs are up for another user than root", up)
	log := kubectl(t, "-n", stack.Namespace, "logs", pod)
	for _, lacks := range []string{"cannot share the nvml lease", "pod-resources"} {
		if !strings.Contains(log, lacks) {
			t.Errorf("the log does not say that the exporter lacks %q:\n%s", lacks, log)
		}
	}
}
