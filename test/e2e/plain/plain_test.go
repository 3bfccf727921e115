//go:build e2e

// Package plain_test makes a simulated GPU node of a plain node of Kubernetes, by the chart gpu-sim alone.
package plain_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
	"outrigger.dev/test/e2e/stack/stacktest"
)

const (
	limit = stacktest.Limit
	// follows is how long a node may take to follow its label.
	follows = 10 * time.Second
	label   = "outrigger.dev/simulated-gpus"
	root    = "nvidiaDriverRoot=/run/nvidia/driver"
)

// node is a node in one part of the test.
type node struct {
	stacktest.Rig
	name string
}

// TestPlainNode simulates GPUs on a node without any, uses them, changes them, and removes them.
func TestPlainNode(t *testing.T) {
	r := stacktest.New(t, cluster.Config{Nodes: 2, Progress: os.Stderr})
	n := node{r, r.Nodes()[0]}
	t.Cleanup(func() { n.explain(t) })
	n.part("a label gives the node GPUs", func(n node) {
		n.install("gpu-sim", "pools[0].name=other", `pools[0].nodeSelector.kubernetes\.io/hostname=`+n.Nodes()[1], "pools[0].model=l40s", "pools[0].gpus=2")
		n.label("h100-80x8")
		n.has(8, "H100")
	})
	n.part("the agents find them, and a pod computes", func(n node) {
		n.install("feature-discovery", root, "migStrategy=mixed")
		n.install("device-plugin", root, "deviceListStrategy=cdi-cri", "migStrategy=mixed")
		n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 8, limit))
		n.Must(n.WaitGPUReady(n.T.Context(), n.name, limit))
		n.computes("whole")
	})
	n.part("a pool gives another node GPUs of another model", pooled)
	n.part("the files are where docs/gpu-sim.md says", files)
	n.part("containers without a GPU see the GPUs in their own /proc and /sys", containers)
	n.part("a GPU shows the load that its pod asks for", loaded)
	n.part("an error makes a GPU unhealthy", failing)
	n.part("MIG devices come and go", divided)
	n.part("the node follows its label", func(n node) {
		engine := n.engines()
		start := time.Now()
		n.label("a100-40x2")
		n.has(2, "A100")
		n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 2, limit))
		if took := time.Since(start); took > follows {
			n.T.Errorf("the node followed after %s, want %s", took, follows)
		}
		if now := n.engines(); now != engine {
			n.T.Errorf("kubelet and engine were\n%s\nand are\n%s", engine, now)
		}
		n.computes("other")
	})
	n.part("a killed pod leaves the GPUs, and the next pod takes them over", killed)
	n.part("NVIDIA's manifests find the same GPUs", theirs)
	n.part("everything goes", removed)
	n.part("one command installs everything", oneCommand)
}

func (n node) part(name string, do func(node)) {
	n.T.Helper()
	n.Part(name, func(r stacktest.Rig) { do(node{r, n.name}) })
}

func (n node) install(agent string, values ...string) {
	n.T.Helper()
	release, err := n.Agent(agent, values...)
	n.Must(err)
	n.Must(n.Install(n.T.Context(), release))
}

// label sets the label. An empty value removes it.
func (n node) label(value string) {
	n.T.Helper()
	if value == "" {
		n.MustKubectl("label", "node", n.name, label+"-")
		return
	}
	n.MustKubectl("label", "node", n.name, "--overwrite", label+"="+value)
}

// has waits until the node shows GPUs of a product.
func (n node) has(count int, product string) {
	n.T.Helper()
	want := fmt.Sprintf("%d of %d", count, count)
	n.Until(want+" "+product, func() bool {
		return n.Shell(n.name, fmt.Sprintf("echo $(ls -d /dev/nvidia[0-9]* 2>/dev/null | wc -l) of $(cat /proc/driver/nvidia/gpus/*/information 2>/dev/null | grep -c %s)", product)) == want
	})
}

// pod returns the pod of gpu-sim on the node, as "pod/NAME", or "" without one.
func (n node) pod() string {
	n.T.Helper()
	return n.MustKubectl("-n", stack.Namespace, "get", "pods", "-l", "app.kubernetes.io/name=gpu-sim", "--field-selector=spec.nodeName="+n.name, "-o", "name")
}

// simulate runs gpu-sim in the pod on the node.
func (n node) simulate(args ...string) string {
	n.T.Helper()
	return n.MustKubectl(append([]string{"-n", stack.Namespace, "exec", n.pod(), "--", "gpu-sim"}, args...)...)
}

// smi runs nvidia-smi on the node.
func (n node) smi(query string) string {
	n.T.Helper()
	return n.Shell(n.name, "LD_LIBRARY_PATH=/run/nvidia/driver/usr/lib/x86_64-linux-gnu /run/nvidia/driver/usr/bin/nvidia-smi "+query)
}

func (n node) computes(pod string) {
	n.T.Helper()
	result, err := n.RunVectorAdd(n.T.Context(), pod, limit)
	n.Must(err)
	if len(result.GPUs) != 1 || !strings.Contains(result.Log, "Test PASSED") {
		n.T.Errorf("pod %s has the GPUs %q and says %q", pod, result.GPUs, result.Log)
	}
}

// engines returns the process IDs of the kubelet and the container engine.
func (n node) engines() string {
	n.T.Helper()
	return n.Shell(n.name, "pidof containerd kubelet hyperkube kubernetes; true")
}

// listing describes what the simulator changes on a node: mounts, except those of pods, device nodes and files.
func (n node) listing() string {
	n.T.Helper()
	return n.Shell(n.name, `awk '$5 !~ "^/(var/lib/kubelet|run/containerd|run/netns|var/lib/containerd)/" {print $4, $5, $6}' /proc/self/mountinfo
ls -l /dev | sed 1d
ls /proc/driver /sys/bus/pci/devices
cat /proc/devices
ls -A /run/gpu-sim /run/nvidia/driver 2>/dev/null; true`)
}

// files reads the files of the table in docs/gpu-sim.md on the node, and where the mounts of pods show them.
func files(n node) {
	for _, path := range []string{
		"/run/nvidia/driver/usr/bin/nvidia-smi", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/run/nvidia/driver/lib/firmware/nvidia/*/gsp_ga10x.bin",
		"/dev/nvidia7", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap1",
		"/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/proc/driver/nvidia/capabilities/mig/config", "/proc/driver/nvidia-caps/mig-minors",
	} {
		if got := n.Shell(n.name, "ls -d "+path+" 2>&1 | wc -l; ls -d "+path+" >/dev/null && echo there"); got != "1\nthere" {
			n.T.Errorf("%s: %s", path, got)
		}
	}
	for script, want := range map[string]string{
		"grep -c nvidia /proc/devices":                                                                                        "6",
		"cat /sys/bus/pci/devices/*/vendor | grep -c 0x10de":                                                                  "8",
		"dd if=/dev/nvidia0 count=1 2>&1 | grep -c 'No such device or address'":                                               "1",
		"LD_LIBRARY_PATH=/run/nvidia/driver/usr/lib/x86_64-linux-gnu /run/nvidia/driver/usr/bin/nvidia-smi -L | grep -c H100": "8",
	} {
		if got := n.Shell(n.name, script); got != want {
			n.T.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// killed kills the pod without a chance to clean up.
func killed(n node) {
	n.simulate("set", "0.temperature=84")
	n.MustKubectl("-n", stack.Namespace, "delete", "pod", "-l", "app.kubernetes.io/name=gpu-sim", "--force", "--grace-period=0")
	n.has(2, "A100")
	n.MustKubectl("-n", stack.Namespace, "rollout", "status", "ds/gpu-sim", "--timeout="+limit.String())
	if got := n.simulate("show", "--json"); !strings.Contains(got, `"temperature": 84`) {
		n.T.Errorf("the new pod has other GPUs: %s", got)
	}
}

// removed removes the GPUs by the label, and then by the end of the DaemonSet. Without agents, the node is
// as before.
func removed(n node) {
	n.label("")
	n.has(0, "A100")
	n.Until("the pod is gone", func() bool {
		return n.pod() == ""
	})
	before := n.listing()
	if strings.Contains(before, "nvidia") && strings.Contains(before, "/dev/nvidia") || strings.Contains(before, "gpu-sim/node") {
		n.T.Errorf("without the label, the node has\n%s", before)
	}
	n.label("h100-80x8")
	n.has(8, "H100")
	n.Must(n.Uninstall(n.T.Context(), "gpu-sim"))
	if after := n.listing(); after != before {
		n.T.Errorf("before, the node had\n%s\nand after the end of the DaemonSet\n%s", before, after)
	}
}

// explain logs the simulator's log if the test has failed.
func (n node) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	out, err := n.Kubectl(context.WithoutCancel(t.Context()), "-n", stack.Namespace, "logs", "ds/gpu-sim", "--tail=50")
	t.Logf("gpu-sim: %v\n%s", err, out)
	out, err = n.Kubectl(context.WithoutCancel(t.Context()), "get", "events", "-A")
	t.Logf("events: %v\n%s", err, out)
}
