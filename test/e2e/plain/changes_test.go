//go:build e2e

package plain_test

import (
	"strconv"
	"strings"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

const mig1g = "nvidia.com/mig-1g.10gb"

// pooled uses the GPUs that a pool gives the other node, which are of another model.
func pooled(n node) {
	other := node{n.Rig, n.Nodes()[1]}
	other.has(2, "L40S")
	n.Must(n.WaitAllocatable(n.T.Context(), other.name, stack.GPU, 2, limit))
	n.MustKubectl("cordon", n.name)
	n.computes("pooled")
	n.MustKubectl("uncordon", n.name)
	for name, want := range map[string]string{n.name: "H100", other.name: "L40S"} {
		if got := n.MustKubectl("get", "node", name, "-o", `jsonpath={.metadata.labels.nvidia\.com/gpu\.product}`); !strings.Contains(got, want) {
			n.T.Errorf("node %s has GPUs of the product %q, want %s", name, got, want)
		}
	}
	n.MustKubectl("cordon", other.name) // all other parts are about the first node
}

// failing makes a GPU unhealthy, by an XID until it is reset, and by its loss until it is back.
func failing(n node) {
	for _, fault := range []struct{ begin, end []string }{
		{[]string{"xid", "3", "79"}, []string{"reset", "3"}},
		{[]string{"lose", "3"}, []string{"heal", "3"}},
	} {
		n.simulate(fault.begin...)
		n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 7, limit))
		n.simulate(fault.end...)
		n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 8, limit))
	}
}

// divided divides all GPUs by the label of the MIG manager, and back.
func divided(n node) {
	n.MustKubectl("label", "node", n.name, "nvidia.com/gpu.deploy.mig-manager=true")
	n.install("mig-manager", root)
	layout := func(name string) {
		n.MustKubectl("label", "node", n.name, "--overwrite", stack.MIGConfig+"="+name)
	}
	layout("all-1g.10gb")
	n.Must(n.WaitAllocatable(n.T.Context(), n.name, mig1g, 56, limit))
	result, err := n.RunPod(n.T.Context(), stack.Pod{Name: "divided", Resource: mig1g}, limit)
	n.Must(err)
	if len(result.GPUs) != 1 || !strings.HasPrefix(result.GPUs[0], "MIG-") || !strings.Contains(result.Log, "Test PASSED") {
		n.T.Errorf("a pod with a MIG device has %q and says %q", result.GPUs, result.Log)
	}
	layout("all-disabled")
	n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 8, limit))
	n.Must(n.Uninstall(n.T.Context(), "mig-manager"))
	n.MustKubectl("label", "node", n.name, "nvidia.com/gpu.deploy.mig-manager-", stack.MIGConfig+"-")
}

// loaded runs a pod whose annotations ask for a load. The GPU has the load and a process while the pod runs, and the exporter
// serves both.
func loaded(n node) {
	n.install("dcgm-exporter", root, "collectInterval=5000")
	n.Must(n.Apply(n.T.Context(), `
apiVersion: v1
kind: Pod
metadata:
  name: loaded
  annotations: {outrigger.dev/sim.utilization: "75", outrigger.dev/sim.memory: 20Gi}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: `+cluster.BusyboxImage+`, command: [sleep, "3600"], resources: {limits: {nvidia.com/gpu: 1}}}]
`))
	n.Until("one GPU of eight has the load", func() bool { return n.utilization() == 75 })
	if got := n.smi("--query-compute-apps=used_memory --format=csv,noheader,nounits"); got != "20480" {
		n.T.Errorf("the processes on GPUs use %q MiB", got)
	}
	if got := n.MustKubectl("exec", "loaded", "--", "cat", "/proc/driver/nvidia/version"); !strings.Contains(got, "NVRM version") {
		n.T.Errorf("the container with a GPU reads the driver's version %q in its /proc", got)
	}
	n.MustKubectl("annotate", "pod", "loaded", "--overwrite", "outrigger.dev/sim.utilization=40")
	n.Until("the exporter serves the load of the pod", func() bool {
		return n.metric("DCGM_FI_DEV_GPU_UTIL") == "40" && n.metric("DCGM_FI_DEV_FB_USED") == "20480"
	})
	n.MustKubectl("delete", "pod", "loaded", "--force", "--grace-period=0")
	n.Until("no GPU has a load", func() bool { return n.utilization() == 0 })
	n.Must(n.Uninstall(n.T.Context(), "dcgm-exporter"))
}

// utilization returns the sum of the utilization of all GPUs, as nvidia-smi prints it.
func (n node) utilization() (sum int) {
	n.T.Helper()
	for one := range strings.FieldsSeq(n.smi("--query-gpu=utilization.gpu --format=csv,noheader,nounits")) {
		value, err := strconv.Atoi(one)
		n.Must(err)
		sum += value
	}
	return sum
}

// metric returns the value of a metric of the pod "loaded", or "" without it.
func (n node) metric(name string) string {
	n.T.Helper()
	address := n.MustKubectl("-n", stack.Namespace, "get", "pod", "--selector=app=nvidia-dcgm-exporter", "--field-selector=spec.nodeName="+n.name, "-o", "jsonpath={.items[0].status.podIP}")
	for line := range strings.Lines(n.Shell(n.name, "busybox wget -q -O - http://"+address+":9400/metrics")) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, `pod="loaded"`) {
			return strings.TrimSpace(line[strings.LastIndexByte(line, '}')+1:])
		}
	}
	return ""
}
