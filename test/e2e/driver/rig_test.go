//go:build e2e

// Package driver_test runs the driver loader on a Kubernetes whose GPU nodes come without a
// driver, and with a simulated kernel that loads modules.
package driver_test

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
	// The versions of simulated drivers. The last one's module nvidia fails.
	first, second, broken = "580.95.05", "580.105.08", "590.44.01"
	// eio is the error of the broken one.
	eio  = 5
	gpus = 2
	// limit is for what takes seconds on an idle machine.
	limit = 90 * time.Second
)

// nodes is a cluster with three GPU nodes, in one part of the test.
type nodes struct {
	*stack.Stack
	t *testing.T
}

// newNodes starts a cluster until the test ends.
func newNodes(t *testing.T) nodes {
	t.Helper()
	root, err := stack.FindRoot()
	must(t, err)
	if c, err := cluster.Open(); err == nil {
		t.Fatalf("a cluster of %d nodes is up on this machine; run first: make demo-down", len(c.Nodes()))
	}
	s, err := stack.Up(t.Context(), root, cluster.Config{Nodes: 4, GPUNodes: 3, GPUs: gpus, Model: "h100-80", Bare: true, Progress: os.Stderr})
	if s != nil {
		t.Cleanup(func() {
			if err := s.Down(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	must(t, err)
	n := nodes{Stack: s, t: t}
	for version, fails := range map[string]int{first: 0, second: 0, broken: eio} {
		must(t, s.LoadDriver(t.Context(), version, fails))
	}
	t.Cleanup(n.explain)
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// part runs a part of the test. The parts that follow build on it.
func (n nodes) part(name string, do func(nodes)) {
	n.t.Helper()
	if !n.t.Run(name, func(t *testing.T) { do(nodes{n.Stack, t}) }) {
		n.t.FailNow()
	}
}

// explain logs what the agents said if the test has failed.
func (n nodes) explain() {
	if !n.t.Failed() {
		return
	}
	for _, node := range n.GPUNodes() {
		path, err := n.Log(node, "init")
		if err == nil {
			var log []byte
			log, err = os.ReadFile(path)
			n.t.Logf("%s: %v\n%s", node, err, log)
		}
	}
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "nodes", "-L", "nvidia.com/gpu-driver-upgrade-state"},
		{"-n", stack.Namespace, "logs", "--selector=app.kubernetes.io/name=driver-loader", "--tail=60", "--prefix"},
		{"get", "events", "-A", "--field-selector=type=Warning"},
	} {
		out, err := n.Kubectl(context.WithoutCancel(n.t.Context()), args...)
		n.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// kubectl runs kubectl and returns what it printed, without the white space around it.
func (n nodes) kubectl(args ...string) string {
	n.t.Helper()
	out, err := n.Kubectl(n.t.Context(), args...)
	must(n.t, err)
	return strings.TrimSpace(out)
}

// shell runs a script on a node.
func (n nodes) shell(node, script string) string {
	n.t.Helper()
	out, err := n.Exec(n.t.Context(), node, "sh", "-c", script)
	must(n.t, err)
	return strings.TrimSpace(out)
}

// driver installs the agent with a driver, and waits until its pods are ready.
func (n nodes) driver(version string, values ...string) {
	n.t.Helper()
	r, err := n.DriverLoader(version, values...)
	must(n.t, err)
	must(n.t, n.Install(n.t.Context(), r))
}

// ready waits until the agents of all GPU nodes are ready.
func (n nodes) ready() {
	n.t.Helper()
	n.kubectl("-n", stack.Namespace, "rollout", "status", "daemonset/driver-loader", "--timeout", limit.String())
}

// apply creates objects until the test ends.
func (n nodes) apply(manifest string) {
	n.t.Helper()
	must(n.t, n.Apply(n.t.Context(), manifest))
}

// until waits until something holds.
func (n nodes) until(what string, holds func() bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	for !holds() {
		if !pace.Pause(ctx, 200*time.Millisecond) {
			n.t.Fatalf("wait until %s: it did not within %s", what, limit)
		}
	}
}

// cancelled returns a context that ends with the test, or before.
func cancelled(t *testing.T) (context.Context, func()) { return context.WithCancel(t.Context()) }
