package dashboards_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/device-plugin/kubelettest"
)

// Metrics that are served only with an API server: what the tests of their packages hold equal to what
// those serve.
const (
	readyMetrics        = "../../../agents/feature-discovery/internal/metrics/testdata/served.prom"
	orchestratorMetrics = "../../../orchestrator/internal/metrics/testdata/a-node-without-a-driver.prom"
)

// agents starts the other agents on the nodes, and returns the jobs that scrape them. A third node,
// gpu-3, has a driver that is installed, but not loaded.
func agents(t *testing.T, all []*node) []job {
	t.Helper()
	jobs := map[string]*job{}
	add := func(agent string, n *node, address string) {
		if jobs[agent] == nil {
			jobs[agent] = &job{JobName: "nvidia-" + agent}
		}
		jobs[agent].StaticConfigs = append(jobs[agent].StaticConfigs, target{
			Targets: []string{address},
			Labels: map[string]string{
				"namespace": "gpu-operator", "pod": "nvidia-" + agent + "-" + n.name, "container": agent,
				"instance": fmt.Sprintf("10.0.0.%s:9410", strings.TrimPrefix(n.name, "gpu-")),
			},
		})
	}
	ready := read(t, readyMetrics)
	for _, n := range all {
		add("device-plugin", n, n.devicePlugin(t))
		add("container-toolkit", n, n.toolkit(t))
		add("feature-discovery", n, served(t, ready))
		add("driver-loader", n, n.driverLoader(t, true))
	}
	third := &node{Node: all[1].Node, name: "gpu-3"}
	add("driver-loader", third, third.driverLoader(t, false))
	add("feature-discovery", third, served(t, notReady(t, ready)))
	add("orchestrator", all[0], served(t, read(t, orchestratorMetrics)))
	var out []job
	for _, j := range jobs {
		out = append(out, *j)
	}
	return out
}

// devicePlugin starts the device plugin with a kubelet of its own.
func (n *node) devicePlugin(t *testing.T) string {
	t.Helper()
	kubelet, err := kubelettest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kubelet.Stop)
	n.allocate = func(ctx context.Context) error {
		_, err := kubelet.Allocate(ctx, "nvidia.com/gpu", n.gpus[0])
		return err
	}
	served := address(t, n.runs(t, "device-plugin", "--run-root", t.TempDir(), "--listen=127.0.0.1:0", "--kubelet-socket", kubelet.Socket(), "--cdi-root", t.TempDir()))
	if _, err := kubelet.WaitRegistrations(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	return served
}

// toolkit starts the container toolkit, with programs of its own to install.
func (n *node) toolkit(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	return address(t, n.runs(t, "container-toolkit", "--run-root", t.TempDir(), "--listen=127.0.0.1:0", "--no-runtime-config",
		"--toolkit-install-dir", filepath.Join(dir, "installed"), "--toolkit-source-root", n.Bin,
		"--toolkit-pid-file", filepath.Join(dir, "pid"), "--cdi-output-dir", filepath.Join(dir, "cdi")))
}

// driverLoader starts the driver loader on a host with the driver of the node.
func (n *node) driverLoader(t *testing.T, loaded bool) string {
	t.Helper()
	dir := t.TempDir()
	host, sys := filepath.Join(dir, "host"), filepath.Join(dir, "sys")
	const libraries = "usr/lib/x86_64-linux-gnu"
	if err := os.CopyFS(filepath.Join(host, libraries), os.DirFS(filepath.Join(n.Root, "driver", libraries))); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{filepath.Join(host, "dev/char/.keep"): "", filepath.Join(sys, "module/kernel/.keep"): ""}
	if loaded {
		for name, content := range map[string]string{"initstate": "live", "version": "580.95.05", "refcnt": "0"} {
			files[filepath.Join(sys, "module/nvidia", name)] = content + "\n"
		}
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/sys/bus", filepath.Join(sys, "bus")); err != nil {
		t.Fatal(err)
	}
	return address(t, n.runs(t, "driver-loader", "--run-root", t.TempDir(), "--listen=127.0.0.1:0", "--host-root", host, "--sys-root", sys,
		"--store", filepath.Join(dir, "store"), "--driver-install-dir", filepath.Join(dir, "driver"), "--kernel-module-config", filepath.Join(dir, "none")))
}

// notReady returns the metrics of feature discovery on a node without a driver.
func notReady(t *testing.T, ready string) string {
	t.Helper()
	const metric = "outrigger_feature_discovery_gpu_ready"
	text := strings.Replace(ready, metric+`{reason="GPUsReady"} 1`, metric+`{reason="DriverNotFound"} 0`, 1)
	if text == ready {
		t.Fatalf("%s has no %s", readyMetrics, metric)
	}
	return text
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// served serves metrics, and returns the address.
func served(t *testing.T, metrics string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte(metrics)) // the client has gone
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
