//go:build e2e

// Package crio_test runs our charts on a Kubernetes node whose container engine is CRI-O.
package crio_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

const (
	gpus = 4
	// limit is for what takes seconds on an idle machine.
	limit = 90 * time.Second
	// config is what CRI-O reads, and tools what else the toolkit makes for containers.
	config = "/etc/crio"
	tools  = "/usr/local/nvidia /var/lib/nvidia-container-toolkit /var/run/cdi"
)

// node is the only node of a cluster, in one part of the test.
type node struct {
	*stack.Stack
	t    *testing.T
	name string
	uuid []string
}

// newNode starts a cluster until the test ends.
func newNode(t *testing.T) node {
	t.Helper()
	root, err := stack.FindRoot()
	must(t, err)
	if c, err := cluster.Open(); err == nil {
		t.Fatalf("a cluster of %d nodes is up on this machine; run first: make demo-down", len(c.Nodes()))
	}
	s, err := stack.Up(t.Context(), root, cluster.Config{Nodes: 1, GPUNodes: 1, GPUs: gpus, Model: "h100-80", CRIONodes: 1, Progress: os.Stderr})
	if s != nil {
		t.Cleanup(func() {
			if err := s.Down(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	must(t, err)
	n := node{Stack: s, t: t, name: s.GPUNodes()[0]}
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
	if !n.t.Failed() || err != nil {
		return
	}
	log, err := os.ReadFile(path)
	if err != nil {
		n.t.Log(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "level=error") {
			n.t.Log(line)
		}
	}
}

// part runs a part of the test. The parts that follow build on it.
func (n node) part(name string, do func(node)) {
	n.t.Helper()
	if !n.t.Run(name, func(t *testing.T) {
		n.t = t
		do(n)
	}) {
		n.t.FailNow()
	}
}

// kubectl runs kubectl and returns what it prints.
func (n node) kubectl(args ...string) string {
	n.t.Helper()
	out, err := n.Kubectl(n.t.Context(), args...)
	must(n.t, err)
	return strings.TrimSpace(out)
}

// shell runs a shell command on the node and returns what it prints.
func (n node) shell(command string) string {
	n.t.Helper()
	out, err := n.Exec(n.t.Context(), n.name, "sh", "-c", command)
	must(n.t, err)
	return strings.TrimSpace(out)
}

// apply applies a manifest whose pods are deleted when this part of the test ends.
func (n node) apply(manifest string) {
	n.t.Helper()
	n.t.Cleanup(func() {
		cmd := n.KubectlCommand(context.WithoutCancel(n.t.Context()), "delete", "--ignore-not-found", "--wait", "--timeout=60s", "-f", "-")
		cmd.Stdin = strings.NewReader(manifest)
		if out, err := cmd.CombinedOutput(); err != nil {
			n.t.Errorf("%v: %s", err, out)
		}
	})
	must(n.t, n.Apply(n.t.Context(), manifest))
}

// until waits until a condition holds.
func (n node) until(what string, ok func() bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	for !ok() {
		if !pace.Pause(ctx, 200*time.Millisecond) {
			n.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// says waits until kubectl describe shows a text for a pod.
func (n node) says(pod, text string) {
	n.t.Helper()
	n.until("kubectl describe pod shows "+text, func() bool {
		return strings.Contains(n.kubectl("describe", "pod", pod), text)
	})
}

// files returns the sums of all files in folders of the node.
func (n node) files(folders string) string {
	n.t.Helper()
	return n.shell("for f in " + folders + "; do [ ! -e $f ] || find $f -type f -exec sha256sum {} +; done | sort -k2")
}

// restarts returns how many times the engine was started again.
func (n node) restarts() int {
	n.t.Helper()
	path, err := n.Log(n.name, "init")
	must(n.t, err)
	log, err := os.ReadFile(path)
	must(n.t, err)
	return strings.Count(string(log), `msg="component started" component=crio `) - 1
}

// restarted checks how many times the engine was started again.
func (n node) restarted(want int) {
	n.t.Helper()
	if got := n.restarts(); got != want {
		n.t.Errorf("CRI-O was started again %d times, want %d", got, want)
	}
}

// containers returns the containers of the pods that have run before the toolkit, except for
// those of some agents.
func (n node) containers(agents string) string {
	n.t.Helper()
	return n.kubectl("get", "pods", "--all-namespaces", "--selector=app.kubernetes.io/name notin ("+agents+")", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.phase} {range .status.containerStatuses[*]}{.containerID} {.ready} {.restartCount}{"\n"}{end}{end}`)
}

// plugin installs the device plugin with a way to name devices to the engine.
func (n node) plugin(strategy string) {
	n.t.Helper()
	must(n.t, n.InstallDevicePlugin(n.t.Context(), "deviceListStrategy="+strategy))
	must(n.t, n.WaitAllocatable(n.t.Context(), n.name, stack.GPU, gpus, limit))
}

// toolkit installs or upgrades the container toolkit.
func (n node) toolkit(values ...string) {
	n.t.Helper()
	must(n.t, n.InstallContainerToolkit(n.t.Context(), append([]string{"runtime.engine=crio"}, values...)...))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
