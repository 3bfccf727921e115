package dashboards_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/e2e/dashboards"
)

func TestMain(m *testing.M) { agenttest.Main(m, func() {}) }

// counters is the list of metrics of the exporter.
const counters = "../../../agents/dcgm-exporter/internal/counters/default-counters.csv"

// Every query of the chart's dashboards and of public ones has data on a real Prometheus, which scrapes
// exporters of two simulated nodes, and every alert of the chart is evaluated without an error.
func TestDashboards(t *testing.T) {
	installed(t, "prometheus")
	all := nodes(t)
	rules := alerts(t)
	others := agents(t, all)
	scraped := func(honor bool, args ...string) dashboards.Prometheus {
		return prometheus(t, rules, append([]job{exporters(t, all, honor, args...)}, others...)...)
	}
	usual := scraped(false)
	other := scraped(true, "--hostname-label=hostname")
	full := scraped(false, "--collectors="+fullList(t))
	window := simulate(t, all, usual, other, full)
	for name, c := range map[string]struct {
		server dashboards.Prometheus
		values string
	}{
		"with the labels of most clusters": {usual, "dashboards.enabled=true"},
		"with other labels":                {other, "dashboards.enabled=true,hostnameLabel=hostname,serviceMonitor.enabled=true,serviceMonitor.honorLabels=true"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range rendered(t, c.values) {
				answers, err := c.server.Ask(t.Context(), d, nil, window)
				if err != nil {
					t.Error(err)
				}
				if page, err := dashboards.Draw(d, answers, window); err != nil || !strings.Contains(page, d.Title) {
					t.Errorf("draw dashboard %q: %v", d.Title, err)
				}
			}
		})
	}
	t.Run("public dashboards", func(t *testing.T) { public(t, full, other, window) })
	t.Run("alerts", func(t *testing.T) { evaluated(t, full) })
	pictures(t, all, usual, window)
}

// exporters starts an exporter on each node, and returns the job that scrapes them as in a cluster.
func exporters(t *testing.T, all []*node, honor bool, args ...string) job {
	t.Helper()
	j := job{JobName: "nvidia-dcgm-exporter", HonorLabels: honor}
	for _, n := range all {
		j.StaticConfigs = append(j.StaticConfigs, target{
			Targets: []string{n.exporter(t, args...)},
			Labels:  map[string]string{"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-" + n.name, "container": "nvidia-dcgm-exporter"},
		})
	}
	return j
}

// simulate puts load on the nodes, and faults in between, until each Prometheus has seen enough of all.
// It returns the window in which that happened.
func simulate(t *testing.T, all []*node, servers ...dashboards.Prometheus) dashboards.Window {
	t.Helper()
	began := time.Now()
	goOn := func(until string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		agenttest.PollUntil(ctx, t, until, func() bool {
			if !pace.Pause(ctx, 200*time.Millisecond) {
				return false
			}
			load(t, all, time.Since(began))
			if err := all[0].allocate(ctx); err != nil {
				t.Fatal(err)
			}
			for _, server := range servers {
				if found, err := server.Query(ctx, until, dashboards.Window{To: time.Now()}); err != nil || len(found) == 0 {
					return false
				}
			}
			return true
		})
	}
	// Both GPUs and pods are known, and counters have a value from before the faults.
	goOn(`min(count_over_time(gpu_up[1m])) >= 3 and count(count by (Hostname, hostname) (exporter_pod_mapping_up == 1)) and count(count by (gpu, Hostname, hostname) (gpu_pod_allocated_seconds_total)) == 6`)
	faults(all)
	all[0].Run("set", "nvmlDeviceGetTemperature.return=999")
	all[0].kubeletFails()
	goOn(`sum(exporter_pod_mapping_errors_total) > 0 and sum(increase(exporter_sample_errors_total[1m])) > 0`)
	all[0].Run("set", "nvmlDeviceGetTemperature.return=0")
	all[0].kubelet.Set(all[0].pods...)
	goOn(`min(exporter_pod_mapping_up) == 1 and count(count_over_time(DCGM_FI_DEV_GPU_TEMP{gpu="0"}[4s]) > 3)`)
	return dashboards.Window{From: began, To: time.Now(), Step: time.Second}
}

// rendered returns the dashboards of the chart with values.
func rendered(t *testing.T, values string) (out []dashboards.Dashboard) {
	t.Helper()
	for _, object := range objects(t, values) {
		for _, text := range object.Data {
			d, err := dashboards.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		t.Fatal("the chart has no dashboards")
	}
	return out
}

// alerts returns the groups of alerts of the chart.
func alerts(t *testing.T) any {
	t.Helper()
	for _, object := range objects(t, "prometheusRule.enabled=true") {
		if object.Kind == "PrometheusRule" {
			return object.Spec.Groups
		}
	}
	t.Fatal("the chart has no PrometheusRule")
	return nil
}

type object struct {
	Kind string
	Data map[string]string
	Spec struct{ Groups any }
}

// objects returns what the chart renders with values.
func objects(t *testing.T, values string) (out []object) {
	t.Helper()
	parsed, err := strvals.Parse(values)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := charts.Load("dcgm-exporter")
	if err != nil {
		t.Fatal(err)
	}
	text, err := charts.Render(chart, charts.Release{Name: "nvidia-dcgm-exporter", Namespace: "gpu-operator", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(parsed)})
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// fullList returns a file with the list of metrics in which no line is a comment, and with the fields
// that alerts want in addition.
func fullList(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(counters)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.ReplaceAll(string(text), "\n# DCGM_", "\nDCGM_")
	for _, name := range []string{
		"FB_TOTAL", "SLOWDOWN_TEMP", "ROW_REMAP_PENDING", "PCIE_LINK_WIDTH", "PCIE_MAX_LINK_WIDTH",
		"CLOCKS_EVENT_REASONS", "CLOCK_THROTTLE_REASONS",
	} {
		list += "DCGM_FI_DEV_" + name + ", gauge, " + name + "\n"
	}
	path := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(path, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
