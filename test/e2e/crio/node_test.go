//go:build e2e

// Package crio_test runs our charts on a Kubernetes node whose container engine is CRI-O.
package crio_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
	"outrigger.dev/test/e2e/stack/stacktest"
)

const (
	gpus  = 4
	limit = stacktest.Limit
	// config is what CRI-O reads, and tools what else the toolkit makes for containers.
	config = "/etc/crio"
	tools  = "/usr/local/nvidia /var/lib/nvidia-container-toolkit /var/run/cdi"
)

// node is the only node of a cluster, in one part of the test.
type node struct {
	stacktest.Rig
	name string
	uuid []string
}

// newNode starts a cluster until the test ends.
func newNode(t *testing.T) node {
	t.Helper()
	r := stacktest.New(t, cluster.Config{
		Nodes: 1, GPUNodes: 1, GPUs: gpus, Model: "h100-80", CRIONodes: 1, Progress: os.Stderr,
		Images: []string{"container-toolkit", "device-plugin", "feature-discovery", "vectoradd"},
	})
	n := node{Rig: r, name: r.GPUNodes()[0]}
	t.Cleanup(n.explain)
	n.uuid = strings.Fields(n.shell("nvidia-smi --query-gpu=uuid --format=csv,noheader"))
	if len(n.uuid) != gpus {
		t.Fatalf("the node has the GPUs %q, want %d", n.uuid, gpus)
	}
	return n
}

// explain logs the errors of CRI-O if the test has failed.
func (n node) explain() {
	path, err := n.Log(n.name, "crio")
	if !n.T.Failed() || err != nil {
		return
	}
	log, err := os.ReadFile(path)
	if err != nil {
		n.T.Log(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "level=error") {
			n.T.Log(line)
		}
	}
}

// part runs a part of the test. The parts that follow build on it.
func (n node) part(name string, do func(node)) {
	n.T.Helper()
	n.Part(name, func(r stacktest.Rig) {
		n.Rig = r
		do(n)
	})
}

// shell runs a shell command on the node and returns what it prints.
func (n node) shell(command string) string {
	n.T.Helper()
	return n.Shell(n.name, command)
}

// apply applies a manifest whose pods are deleted when this part of the test ends.
func (n node) apply(manifest string) {
	n.T.Helper()
	n.T.Cleanup(func() {
		cmd := n.KubectlCommand(context.WithoutCancel(n.T.Context()), "delete", "--ignore-not-found", "--wait", "--timeout=60s", "-f", "-")
		cmd.Stdin = strings.NewReader(manifest)
		if out, err := cmd.CombinedOutput(); err != nil {
			n.T.Errorf("%v: %s", err, out)
		}
	})
	n.Must(n.Apply(n.T.Context(), manifest))
}

// says waits until kubectl describe shows a text for a pod.
func (n node) says(pod, text string) {
	n.T.Helper()
	n.Until("kubectl describe pod shows "+text, func() bool {
		return strings.Contains(n.MustKubectl("describe", "pod", pod), text)
	})
}

// files returns the sums of all files in folders of the node.
func (n node) files(folders string) string {
	n.T.Helper()
	return n.shell(list(folders))
}

// list is the command that prints the checksums of the files in folders.
func list(folders string) string {
	return "for f in " + folders + "; do [ ! -e $f ] || find $f -type f -exec sha256sum {} +; done | sort -k2"
}

// restarts returns how many times the engine was started again.
func (n node) restarts() int {
	n.T.Helper()
	path, err := n.Log(n.name, "init")
	n.Must(err)
	log, err := os.ReadFile(path)
	n.Must(err)
	return strings.Count(string(log), `msg="component started" component=crio `) - 1
}

// restarted checks how many times the engine was started again.
func (n node) restarted(want int) {
	n.T.Helper()
	if got := n.restarts(); got != want {
		n.T.Errorf("CRI-O was started again %d times, want %d", got, want)
	}
}

// containers returns the containers of the pods that have run before the toolkit, except for
// those of some agents.
func (n node) containers(agents string) string {
	n.T.Helper()
	return n.MustKubectl("get", "pods", "--all-namespaces", "--selector=app.kubernetes.io/name notin ("+agents+")", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.phase} {range .status.containerStatuses[*]}{.containerID} {.ready} {.restartCount}{"\n"}{end}{end}`)
}

// plugin installs the device plugin with a way to name devices to the engine.
func (n node) plugin(strategy string) {
	n.T.Helper()
	n.Must(n.InstallDevicePlugin(n.T.Context(), "deviceListStrategy="+strategy))
	n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, gpus, limit))
}

// toolkit installs or upgrades the container toolkit.
func (n node) toolkit(values ...string) {
	n.T.Helper()
	n.Must(n.InstallContainerToolkit(n.T.Context(), append([]string{"runtime.engine=crio"}, values...)...))
}
