//go:build e2e

package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/cluster/cluster"
)

// testLimit is the time limit of one test, for a busy machine.
const testLimit = 8 * time.Minute

const manifests = `
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: web}}
spec:
  nodeName: node1
  containers:
  - name: c
    image: ` + cluster.BusyboxImage + `
    command: [sh, -c, "echo hello from $(hostname) > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: node0
  containers: [{name: c, image: "` + cluster.BusyboxImage + `", command: [sh, -c, "echo started; exec sleep 3600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: hostnetwork}
spec:
  nodeName: node0
  hostNetwork: true
  containers: [{name: c, image: "` + cluster.BusyboxImage + `", command: [sleep, "3600"]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

func binDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// testContext returns the context of a test that starts its own cluster.
func testContext(t *testing.T) context.Context {
	t.Helper()
	if _, err := cluster.Open(); err == nil {
		t.Fatal("a cluster is running that someone may use: remove it first with cluster down")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// bringUp starts a cluster that is removed at the end of the test.
func bringUp(ctx context.Context, t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	cfg.BinDir, cfg.Progress = binDir(t), t.Output()
	c, err := cluster.Up(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Down(context.WithoutCancel(ctx), t.Output()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestClusterOfTwoNodes(t *testing.T) {
	ctx := testContext(t)
	before := takeSnapshot(t)
	c := bringUp(ctx, t, cluster.Config{Nodes: 2})
	// Check the snapshot: otherwise the comparison at the end would prove nothing.
	during := takeSnapshot(t)
	if len(during.Processes) == len(before.Processes) || len(during.Links) == len(before.Links) ||
		len(during.Mounts) == len(before.Mounts) || len(during.Cgroups) == len(before.Cgroups) {
		t.Error("the snapshot does not show a running cluster")
	}
	if err := c.Apply(ctx, manifests); err != nil {
		t.Fatal(err)
	}
	kubectl(ctx, t, c, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")

	t.Run("a second up leaves the cluster as it is", func(t *testing.T) {
		var out strings.Builder
		if _, err := cluster.Up(ctx, cluster.Config{Nodes: 2, BinDir: binDir(t), Progress: &out}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "is up already") {
			t.Errorf("second up printed %q", out.String())
		}
	})
	t.Run("an up with another shape is rejected", func(t *testing.T) {
		if _, err := cluster.Up(ctx, cluster.Config{Nodes: 3, BinDir: binDir(t)}); err == nil {
			t.Error("up of three nodes succeeded while a cluster of two runs")
		}
	})
	t.Run("pods reach pods of other nodes", func(t *testing.T) { testNetwork(ctx, t, c) })
	t.Run("kubectl logs shows what a pod prints", func(t *testing.T) {
		if got := kubectl(ctx, t, c, "logs", "client"); got != "started\n" {
			t.Errorf("logs = %q", got)
		}
	})
	t.Run("pods survive a restart of the kubelet and of containerd", func(t *testing.T) { testRestart(ctx, t, c) })
	t.Run("a node's files are its own", func(t *testing.T) { testFiles(ctx, t, c) })

	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	checkSame(t, before)
}

func testNetwork(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	podIP := kubectl(ctx, t, c, "get", "pod", "server", "-o", "jsonpath={.status.podIP}")
	serviceIP := kubectl(ctx, t, c, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	for name, url := range map[string]string{"pod": "http://" + podIP + ":8080/", "service": "http://" + serviceIP + "/"} {
		for _, from := range []string{"client", "hostnetwork", "server"} {
			got := kubectl(ctx, t, c, "exec", from, "--", "wget", "-qO-", url)
			if want := "hello from server\n"; got != want {
				t.Errorf("%s reads %q from the %s, want %q", from, got, name, want)
			}
		}
	}
}

func testRestart(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	const ids = `jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].containerID}{"\n"}{end}`
	before := kubectl(ctx, t, c, "get", "pods", "-o", ids)
	for _, component := range []string{"containerd", "kubelet"} {
		if err := c.Restart(ctx, component, "node1"); err != nil {
			t.Fatal(err)
		}
	}
	// A new pod on the node proves that both are running again.
	kubectl(ctx, t, c, "run", "after", "--image="+cluster.BusyboxImage, "--overrides", `{"spec":{"nodeName":"node1"}}`, "--", "sleep", "3600")
	kubectl(ctx, t, c, "wait", "--for=condition=Ready", "pod/after", "--timeout=60s")
	kubectl(ctx, t, c, "delete", "pod", "after", "--now")
	if diff := cmp.Diff(before, kubectl(ctx, t, c, "get", "pods", "-o", ids)); diff != "" {
		t.Errorf("containers changed over the restart (-before +after):\n%s", diff)
	}
}

func testFiles(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	const path = "/usr/local/outrigger-cluster-test"
	if _, err := c.Exec(ctx, "node0", "touch", path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, "node0", "stat", path); err != nil {
		t.Error(err)
	}
	if _, err := c.Exec(ctx, "node1", "stat", path); err == nil {
		t.Error("a file of node0 is on node1")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file of node0 is on the machine")
	}
}

// kubectl runs kubectl, which must succeed.
func kubectl(ctx context.Context, t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGPUNode(t *testing.T) {
	ctx := testContext(t)
	before := takeSnapshot(t)
	c := bringUp(ctx, t, cluster.Config{Nodes: 2, GPUNodes: 1, GPUs: 2})
	label := kubectl(ctx, t, c, "get", "nodes", "-l", "feature.node.kubernetes.io/pci-10de.present=true", "-o", "name")
	if diff := cmp.Diff("node/node1\n", label); diff != "" {
		t.Errorf("nodes labelled as GPU nodes (-want +got):\n%s", diff)
	}
	if out, err := c.Exec(ctx, "node1", "ls", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/proc/driver/nvidia/version"); err != nil {
		t.Errorf("node1 lacks some of its GPUs: %v: %s", err, out)
	}
	for where, exists := range map[string]func(string) error{
		"node0":       func(path string) error { _, err := c.Exec(ctx, "node0", "stat", path); return err },
		"the machine": func(path string) error { _, err := os.Stat(path); return err },
	} {
		if exists("/dev/nvidiactl") == nil {
			t.Errorf("%s has GPUs of node1", where)
		}
	}
	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	checkSame(t, before)
}
