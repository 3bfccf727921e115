package view_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/view"
	"outrigger.dev/pkg/cause"
)

// published is the status of a policy.
func published() *model.Status {
	return &model.Status{
		State: model.StateReady, GPUNodes: 8, ReadyNodes: 5,
		Conditions: []metav1.Condition{{Type: model.ConditionReady, Reason: model.ReasonReconciled, Message: "5 of 8 GPU nodes ready"}},
		Stages: []model.StageStatus{
			{Name: "feature-discovery", State: model.Ready, Desired: 8, Ready: 8},
			{Name: "device-plugin", State: model.Degraded, Desired: 8, Ready: 6, Failed: 1, Waiting: 1, Message: "works on 6 of 8 nodes, failed on 1: NodeNotReady on gpu-04"},
		},
		Problems: []model.Problem{{
			Cause: "NodeNotReady", Nodes: 1, Examples: []string{"gpu-04"}, Message: "the node itself is not Ready", Fix: "kubectl describe node gpu-04",
			Since: metav1.NewTime(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)),
		}},
		Inventory: []model.Ref{{Kind: "DaemonSet", Name: "not shown"}},
	}
}

func TestTables(t *testing.T) {
	devices, err := view.Devices(metrics())
	if err != nil {
		t.Fatal(err)
	}
	top := view.NewTop(cluster(), map[string][]view.Device{"gpu-01": devices}, "no exporter runs on 7 nodes")
	one := view.NewTop(cluster(), map[string][]view.Device{"gpu-01": devices}, "")
	for i := range one.Nodes {
		if one.Nodes[i].Node == "gpu-01" {
			one.Nodes = one.Nodes[i : i+1]
			break
		}
	}
	status := view.NewStatus(cluster(), "gpu", "No orchestrator works in this cluster.\n\n", published())
	bare := view.NewStatus(cluster(), "", "No orchestrator has installed the agents.", nil)
	for name, v := range map[string]struct {
		value  any
		people func(table.Out) error
	}{
		"status": {status, status.Write}, "status-bare": {bare, bare.Write}, "top": {top, top.Write}, "top-node": {one, one.WriteNode},
	} {
		for _, width := range []int{60, 100, 0} {
			file := fmt.Sprintf("%s-%d.golden", name, width)
			t.Run(file, func(t *testing.T) {
				var out bytes.Buffer
				if err := v.people(table.Out{Writer: &out, Width: width}); err != nil {
					t.Fatal(err)
				}
				golden.Assert(t, out.String(), file)
			})
		}
		t.Run(name+".yaml", func(t *testing.T) {
			var out bytes.Buffer
			if err := table.Print(table.For(&out), table.FormatYAML, v.value, nil); err != nil {
				t.Fatal(err)
			}
			golden.Assert(t, out.String(), name+".yaml")
		})
	}
}

func TestWorst(t *testing.T) {
	works, waits, fails := node("a", 8), node("b", 0, failing("ToolkitNotReady", "")), node("c", 7)
	stage := func(state string) *model.Status {
		return &model.Status{Stages: []model.StageStatus{{State: model.Ready}, {State: state}}}
	}
	for name, c := range map[string]struct {
		nodes  []*corev1.Node
		status *model.Status
		want   cause.Severity
	}{
		"all nodes work":              {[]*corev1.Node{works}, nil, ""},
		"a node waits":                {[]*corev1.Node{works, waits}, stage(model.Ready), cause.Waits},
		"a node fails, another waits": {[]*corev1.Node{fails, waits}, nil, cause.Fails},
		"a stage waits":               {[]*corev1.Node{works}, stage(model.Progressing), cause.Waits},
		"a stage fails, a node waits": {[]*corev1.Node{waits}, stage(model.Degraded), cause.Fails},
	} {
		if got := view.NewStatus(facts.Facts{Nodes: c.nodes}, "", "", c.status).Worst(); got != c.want {
			t.Errorf("%s: Worst() = %q, want %q", name, got, c.want)
		}
	}
}

func TestNothingToShow(t *testing.T) {
	var out bytes.Buffer
	if err := view.NewTop(facts.Facts{}, nil, "").Write(table.For(&out)); err != nil || out.String() != "No node has a label of a GPU.\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	if _, err := view.Devices("<html>not metrics</html>"); err == nil {
		t.Error("HTML was read as metrics")
	}
}

// BenchmarkViews derives and prints both views of a cluster with 5,000 nodes, 200 of which are broken.
func BenchmarkViews(b *testing.B) {
	var f facts.Facts
	for i := range 5000 {
		name := fmt.Sprintf("node-%04d", i)
		n := node(name, 8)
		if i%25 == 0 {
			failing("ToolkitNotReady", "the toolkit starts")(n)
		}
		f.Nodes = append(f.Nodes, n)
		f.Pods = append(f.Pods, pod(name, "ml", "train-"+name, "gpu", 4))
	}
	o := table.Out{Writer: io.Discard, Width: 120}
	for b.Loop() {
		if err := view.NewTop(f, nil, "").Write(o); err != nil {
			b.Fatal(err)
		}
		if err := view.NewStatus(f, "", "", published()).Write(o); err != nil {
			b.Fatal(err)
		}
	}
}

// A snapshot lists MIG devices after their GPU, and GPUs that do not answer.
func TestSnapshot(t *testing.T) {
	devices, err := view.Snapshot(`{"driver": {"version": "580.95.05"}, "new": 1, "gpus": [
		{"index": 0, "uuid": "GPU-0", "name": "NVIDIA A30", "memoryBytes": 25769803776, "mig": {"enabled": true, "devices": [
			{"uuid": "MIG-1", "gpuInstance": 3, "profile": "2g.12gb", "memoryBytes": 12616466432}]}},
		{"index": 1, "uuid": "GPU-1", "fault": {"op": "nvmlDeviceGetUUID", "reason": "GPU is lost"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	top := view.NewTop(facts.Facts{Nodes: []*corev1.Node{node("a", 8)}}, map[string][]view.Device{"a": devices}, "no pod of the agent dcgm-exporter is ready")
	var out bytes.Buffer
	if err := top.WriteNode(table.For(&out)); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, out.String(), "snapshot.golden")
	if _, err := view.Snapshot("no JSON"); err == nil {
		t.Error("a text was read as a snapshot")
	}
}
