package dashboards_test

import (
	"slices"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/test/e2e/dashboards"
)

// publicQueries are the queries of dashboards, alerts and rules that others have published, by where
// they are from: by the numbers of grafana.com, and as they recur in repositories and issues.
func publicQueries() map[string][]string {
	return map[string][]string{
		"12239": {
			`DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"}`,
			`avg(DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"})`,
			`DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"}`,
			`sum(DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"})`,
			`DCGM_FI_DEV_SM_CLOCK{instance=~"$instance", gpu=~"$gpu"} * 1000000`,
			`DCGM_FI_DEV_GPU_UTIL{instance=~"$instance", gpu=~"$gpu"}`,
			`DCGM_FI_DEV_FB_USED{instance=~"$instance", gpu=~"$gpu"}`,
			`DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{instance=~"$instance", gpu=~"$gpu"}`,
		},
		"18288": {
			`DCGM_FI_PROF_PIPE_FP64_ACTIVE`, `DCGM_FI_PROF_PIPE_FP32_ACTIVE`, `DCGM_FI_PROF_PIPE_FP16_ACTIVE`,
			`DCGM_FI_PROF_SM_ACTIVE`, `DCGM_FI_PROF_SM_OCCUPANCY`, `DCGM_FI_DEV_FB_TOTAL`, `DCGM_FI_DEV_FB_FREE`,
		},
		"23382": {
			`avg by (GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID!="", GPU_I_PROFILE!="", Hostname!=""})`,
		},
		"25617": {
			`avg by (exported_namespace, exported_pod, exported_container) (DCGM_FI_DEV_GPU_UTIL{job="nvidia-dcgm-exporter", exported_pod!=""})`,
			`sum by (UUID, Hostname) (DCGM_FI_DEV_POWER_USAGE)`,
		},
		"rules of NVIDIA's GPU Operator": {
			`DCGM_FI_DEV_MEM_COPY_UTIL`, `DCGM_FI_DEV_MEM_CLOCK`,
		},
		"an adapter for metrics of pods": {
			`DCGM_FI_DEV_GPU_UTIL{exported_namespace!="",exported_pod!="",exported_container!=""}`,
		},
		"others": {
			`DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) * 100`,
			`avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL{Hostname!=""})`,
			`DCGM_FI_PROF_GR_ENGINE_ACTIVE * 100`,
			`rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m]) / 1000 > 0`,
			`DCGM_FI_PROF_PCIE_TX_BYTES > 0`, `DCGM_FI_PROF_PCIE_RX_BYTES > 0`,
			`rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[5m]) > 0`,
			`DCGM_FI_DEV_XID_ERRORS > 0`,
			`DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0`,
			`DCGM_FI_DEV_ROW_REMAP_FAILURE > 0`,
			`increase(DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL[5m]) > 0`,
			`DCGM_FI_DEV_CLOCKS_EVENT_REASONS > 0`, `DCGM_FI_DEV_CLOCK_THROTTLE_REASONS > 0`,
			`rate(DCGM_FI_DEV_POWER_VIOLATION[5m]) > 0`, `rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m]) > 0`,
			// It has data while a node has none.
			`absent_over_time(DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-3"}[5m])`,
		},
	}
}

// emptyQueries never have data, with NVIDIA's exporter neither: the labels err_code and err_msg make
// each code a series of its own, which begins with its only value.
func emptyQueries() []string {
	return []string{`increase(DCGM_FI_DEV_XID_ERRORS[5m]) > 0`, `changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0`}
}

// otherQueries are those of sites with the label hostname, and with honorLabels.
func otherQueries() []string {
	return []string{
		`avg by (hostname) (DCGM_FI_DEV_GPU_UTIL{hostname!=""})`,
		`sum by (namespace, pod) (DCGM_FI_DEV_FB_USED{namespace="research", pod!=""})`,
	}
}

// public checks that all of them have data.
func public(t *testing.T, full, other dashboards.Prometheus, w dashboards.Window) {
	var d, elsewhere dashboards.Dashboard
	for from, queries := range publicQueries() {
		for _, q := range queries {
			d.Panels = append(d.Panels, panel(from, q))
		}
	}
	for _, q := range otherQueries() {
		elsewhere.Panels = append(elsewhere.Panels, panel("others", q))
	}
	for _, label := range []string{"instance", "gpu"} {
		d.Templating.List = append(d.Templating.List, dashboards.Variable{
			Name: label, Type: "query", IncludeAll: true, Query: []byte(`"label_values(DCGM_FI_DEV_GPU_TEMP, ` + label + `)"`),
		})
	}
	d.Title, elsewhere.Title = "public", "public"
	if _, err := full.Ask(t.Context(), d, nil, w); err != nil {
		t.Error(err)
	}
	for _, q := range emptyQueries() {
		if found, err := full.Query(t.Context(), q, w); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v; want nothing, as docs/dcgm-exporter-troubleshooting.md says", q, found, err)
		}
	}
	if _, err := other.Ask(t.Context(), elsewhere, nil, w); err != nil {
		t.Error(err)
	}
}

func panel(title, query string) dashboards.Panel {
	return dashboards.Panel{Type: "timeseries", Title: title, Targets: []dashboards.Target{{Expr: query}}}
}

// evaluated checks that all alerts were evaluated without an error, and that those of the faults are
// active.
func evaluated(t *testing.T, server dashboards.Prometheus) {
	active := []string{
		"GPUXidCritical", "GPUXidApplication", "GPURecoveryActionNeeded", "GPUUncorrectableECC", "GPURowRemapFailure",
		"GPURowRemapPending", "GPUPowerBrake", "GPUNVLinkErrors", "GPUPCIeReplays", "GPUMetricsFailing",
		"GPUConfigRefused", "GPUDeviceUnhealthy", "GPUDriverNotReady", "OutriggerNodesFailed", "OutriggerValidationFailed",
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Errorf("alerts that are not active: %v", left)
		}
	}()
	agenttest.Poll(t, "the alerts", func() bool {
		if err := server.Get(t.Context(), "rules", nil, &rules); err != nil {
			t.Fatal(err)
		}
		left = slices.Clone(active)
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					t.Fatalf("alert %s: %s", r.Name, r.LastError)
				}
				if r.Health != "ok" {
					return false
				}
				if r.State != "inactive" {
					left = slices.DeleteFunc(left, func(name string) bool { return name == r.Name })
				}
			}
		}
		return len(left) == 0
	})
}
