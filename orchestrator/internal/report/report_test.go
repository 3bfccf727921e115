package report_test

import (
	"bytes"
	"testing"
	"time"

	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/report"
	"outrigger.dev/orchestrator/internal/table"
)

func TestWrite(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	status := model.Status{
		State: model.StateNotReady, GPUNodes: 1000, ReadyNodes: 998,
		Conditions: []metav1.Condition{{Type: model.ConditionReady, Reason: model.ReasonNodesNotReady, Message: "device-plugin: no node is ready"}},
		Stages: []model.StageStatus{
			{Name: "feature-discovery", State: model.Ready, Desired: 1000, Ready: 998, Failed: 1, Waiting: 1},
			{Name: "device-plugin", State: model.Progressing, Desired: 1000, Ready: 3, Message: "validates", Validations: []model.ValidationStatus{{State: "Running"}}},
		},
		Problems: []model.Problem{
			{Cause: "ImagePullBackOff", Nodes: 1, Examples: []string{"n1"}, Message: "no such image", Fix: "check the registry", Since: since},
			{Cause: "DriverMissing", Nodes: 12, Examples: []string{"n2", "n3"}, Message: "no driver", Since: since},
			{Cause: "Unschedulable", Nodes: 2, Message: "no room", Since: since},
		},
	}
	var out bytes.Buffer
	if err := report.Write(table.For(&out), status); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, out.String(), "status.golden")
}
