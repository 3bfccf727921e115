package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/metrics"
	"outrigger.dev/orchestrator/internal/model"
)

func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

// status is that of a cluster with a stage of each kind.
func status() model.Status {
	return model.Status{
		State: model.StateReady, GPUNodes: 5000, ReadyNodes: 4500,
		Conditions: []metav1.Condition{{Type: model.ConditionReady, Status: metav1.ConditionTrue, Reason: model.ReasonReconciled}},
		Stages: []model.StageStatus{
			{Name: "feature-discovery", State: model.Ready, Desired: 5000, Ready: 5000},
			{Name: "device-plugin", State: model.Ready, Desired: 5000, Ready: 4500, Failed: 490, Waiting: 10, Validations: []model.ValidationStatus{
				{Name: "nvidia-device-plugin-validation", State: "Passed", Passed: 8, Failed: 1, Skipped: 1},
			}},
		},
		Problems: []model.Problem{
			{Cause: "ImagePullBackOff", Stage: "device-plugin", Nodes: 490},
			{Cause: "ImagePullBackOff", Stage: "device-plugin", Nodes: 3},
			{Cause: "Driver\xffHangs", Nodes: 10},
		},
	}
}

// withoutDriver is the status of a small cluster: one of three nodes has no driver, and a validation
// has failed on another. The pictures of the dashboards show it.
func withoutDriver() model.Status {
	validations := []model.ValidationStatus{{Name: "nvidia-device-plugin-validation", State: "Passed", Passed: 1, Failed: 1}}
	return model.Status{
		State: model.StateReady, GPUNodes: 3, ReadyNodes: 2,
		Conditions: []metav1.Condition{{Type: model.ConditionReady, Status: metav1.ConditionTrue, Reason: model.ReasonReconciled}},
		Stages: []model.StageStatus{
			{Name: "feature-discovery", State: model.Ready, Desired: 3, Ready: 3},
			{Name: "driver-loader", State: model.Degraded, Desired: 3, Ready: 2, Failed: 1},
			{Name: "device-plugin", State: model.Progressing, Desired: 3, Ready: 2, Waiting: 1, Validations: validations},
		},
		Problems: []model.Problem{{Cause: "HostDriverNotLoaded", Stage: "driver-loader", Nodes: 1}},
	}
}

func TestMetrics(t *testing.T) {
	for name, record := range map[string]func(*metrics.Recorder){
		"no policy": func(r *metrics.Recorder) { r.NoPolicy() },
		"ready": func(r *metrics.Recorder) {
			r.Wrote("apply", nil)
			r.Wrote("apply", nil)
			r.Wrote("status", errors.New("conflict"))
			r.Passed(status(), 20*time.Millisecond, nil)
		},
		"a node without a driver": func(r *metrics.Recorder) { r.Passed(withoutDriver(), 20*time.Millisecond, nil) },
		"a pass fails":            func(r *metrics.Recorder) { r.Passed(model.Status{}, time.Second, errors.New("no API server")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := metrics.New(noon)
			record(r)
			golden.Assert(t, scrape(t, r), strings.ReplaceAll(name, " ", "-")+".prom")
			problems, err := testutil.CollectAndLint(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				// NVIDIA's names are what they are.
				if strings.HasPrefix(p.Metric, "outrigger_") {
					t.Errorf("%s: %s", p.Metric, p.Text)
				}
			}
		})
	}
}

func TestReconciliationStatus(t *testing.T) {
	of := func(state, reason string) model.Status {
		return model.Status{State: state, Conditions: []metav1.Condition{{Type: model.ConditionReady, Reason: reason}, {Type: model.ConditionDegraded, Reason: reason}}}
	}
	for name, tc := range map[string]struct {
		status model.Status
		want   string
	}{
		"ready":                       {of(model.StateReady, model.ReasonReconciled), "1"},
		"no node is ready":            {of(model.StateNotReady, model.ReasonNodesNotReady), "0"},
		"there is no GPU node":        {of(model.StateNotReady, model.ReasonNoGPUNodes), "0"},
		"values are refused":          {of(model.StateNotReady, model.ReasonValuesRefused), "-2"},
		"the API server says no":      {of(model.StateReady, model.ReasonReconcileFailed), "-2"},
		"a validation has failed":     {of(model.StateReady, model.ReasonValidationFailed), "1"},
		"the policy is being deleted": {of(model.StateNotReady, model.ReasonDeleting), "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := metrics.New(noon)
			r.Passed(tc.status, 0, nil)
			if out := scrape(t, r); !strings.Contains(out, "gpu_operator_reconciliation_status "+tc.want+"\n") {
				t.Errorf("status is not %s:\n%s", tc.want, out)
			}
		})
	}
}

// TestLastSuccess has a cluster at rest, without passes, which is ready all the same.
func TestLastSuccess(t *testing.T) {
	now := noon()
	r := metrics.New(func() time.Time { return now })
	want := func(value string) {
		t.Helper()
		if out := scrape(t, r); !strings.Contains(out, "gpu_operator_reconciliation_last_success_ts_seconds "+value+"\n") {
			t.Errorf("want %s in:\n%s", value, out)
		}
	}
	want("0")
	r.Passed(status(), 0, nil)
	now = now.Add(100 * time.Second)
	want("1.7953489e+09")
	now = now.Add(100 * time.Second)
	r.Passed(model.Status{State: model.StateNotReady}, 0, nil)
	now = now.Add(time.Hour)
	want("1.795349e+09")
}

func scrape(t *testing.T, r *metrics.Recorder) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
