//go:build e2e

// Package driver_test runs the driver loader on a Kubernetes whose GPU nodes come without a
// driver, and with a simulated kernel that loads modules.
package driver_test

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
	// The versions of simulated drivers. The last one's module nvidia fails.
	first, second, broken = "580.95.05", "580.105.08", "590.44.01"
	// eio is the error of the broken one.
	eio   = 5
	gpus  = 2
	limit = stacktest.Limit
)

// nodes is a cluster with three GPU nodes, in one part of the test.
type nodes struct{ stacktest.Rig }

// newNodes starts a cluster until the test ends.
func newNodes(t *testing.T) nodes {
	t.Helper()
	n := nodes{stacktest.New(t, cluster.Config{
		Nodes: 4, GPUNodes: 3, GPUs: gpus, Model: "h100-80", Bare: true, Images: []string{"driver-loader", "device-plugin"}, Progress: os.Stderr,
	})}
	for version, fails := range map[string]int{first: 0, second: 0, broken: eio} {
		n.Must(n.LoadDriver(t.Context(), version, fails))
	}
	t.Cleanup(n.explain)
	return n
}

// part runs a part of the test. The parts that follow build on it.
func (n nodes) part(name string, do func(nodes)) {
	n.T.Helper()
	n.Part(name, func(r stacktest.Rig) { do(nodes{r}) })
}

// explain logs what the agents said if the test has failed.
func (n nodes) explain() {
	if !n.T.Failed() {
		return
	}
	for _, node := range n.GPUNodes() {
		path, err := n.Log(node, "init")
		if err == nil {
			var log []byte
			log, err = os.ReadFile(path)
			n.T.Logf("%s: %v\n%s", node, err, log)
		}
	}
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "nodes", "-L", "nvidia.com/gpu-driver-upgrade-state"},
		{"-n", stack.Namespace, "logs", "--selector=app.kubernetes.io/name=driver-loader", "--tail=60", "--prefix"},
		{"-n", stack.Namespace, "logs", "--selector=app.kubernetes.io/name=driver-loader-upgrades", "--tail=60", "--prefix"},
		{"-n", stack.Namespace, "get", "configmap/driver-upgrades", "-o", "yaml"},
		{"get", "events", "-A", "--field-selector=type=Warning"},
	} {
		out, err := n.Kubectl(context.WithoutCancel(n.T.Context()), args...)
		n.T.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// driver installs the agent with a driver, and waits until its pods are ready.
func (n nodes) driver(version string, values ...string) {
	n.T.Helper()
	r, err := n.DriverLoader(version, values...)
	n.Must(err)
	n.Must(n.Install(n.T.Context(), r))
}

// ready waits until the agents of all GPU nodes are ready.
func (n nodes) ready() {
	n.T.Helper()
	n.MustKubectl("-n", stack.Namespace, "rollout", "status", "daemonset/driver-loader", "--timeout", limit.String())
}

// apply creates objects until the test ends.
func (n nodes) apply(manifest string) {
	n.T.Helper()
	n.Must(n.Apply(n.T.Context(), manifest))
}

// cancelled returns a context that ends with the test, or before.
func cancelled(t *testing.T) (context.Context, func()) { return context.WithCancel(t.Context()) }
