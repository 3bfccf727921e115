package pass_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// world is what an orchestrator sees, to be changed by a test.
type world struct {
	stages []model.Stage
	state  model.State
}

func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

// healthy returns a cluster with that many GPU nodes, in which everything is as desired.
func healthy(gpus int) *world {
	w := &world{state: model.State{
		Policy: model.Policy{Name: "cluster-policy", Generation: 1}, Objects: map[model.Ref]model.Seen{}, DaemonSets: map[model.Ref]*model.DaemonSet{}, Failures: map[model.Ref]string{}, Now: noon(),
	}}
	for i := range gpus {
		w.state.Nodes = append(w.state.Nodes, &model.Node{
			Name: fmt.Sprintf("n%04d", i), Labels: map[string]string{"nvidia.com/gpu.present": "true"}, Schedulable: true,
			GPUReady: "True", Reason: "GPUsReady", Message: "8 GPUs answer with driver 580.95.05; ready: toolkit, plugin", Since: noon().Add(-time.Hour),
			Allocatable: map[string]int64{"nvidia.com/gpu": 8}, Capacity: map[string]int64{"nvidia.com/gpu": 8},
		})
	}
	for _, name := range []string{"feature-discovery", "container-toolkit", "device-plugin"} {
		w.stage(name, gpus)
	}
	w.stages[2].Needs = []string{"driver-loader", "container-toolkit"}
	return w
}

// stage adds a stage that is ready on all nodes.
func (w *world) stage(name string, nodes int) {
	st := model.Stage{Name: name}
	for _, kind := range []string{"ServiceAccount", "DaemonSet"} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetAPIVersion("v1")
		if kind == "DaemonSet" {
			o.SetAPIVersion("apps/v1")
		}
		o.SetKind(kind)
		o.SetNamespace("gpu-operator-resources")
		o.SetName(name)
		st.Objects = append(st.Objects, o)
		ref := model.RefOf(o)
		w.state.Objects[ref] = model.Seen{Ref: ref, UID: "u", Ours: true, Applied: model.Hash(o)}
		w.state.Policy.Status.Inventory = append(w.state.Policy.Status.Inventory, ref)
	}
	w.state.DaemonSets[daemonSetRef(name)] = &model.DaemonSet{Current: true, Desired: nodes, Updated: nodes, Ready: nodes}
	w.stages = append(w.stages, st)
}

func daemonSetRef(stage string) model.Ref {
	return model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "gpu-operator-resources", Name: stage}
}

func (w *world) daemonSet(stage string) *model.DaemonSet {
	return w.state.DaemonSets[daemonSetRef(stage)]
}

// breaks makes the pods of a stage on that many nodes, from the first, not ready.
func (w *world) breaks(stage string, nodes int, p model.Pod) {
	ds := w.daemonSet(stage)
	ds.Ready -= nodes
	for i := range nodes {
		p := p
		p.Namespace, p.Owner, p.Node = "gpu-operator-resources", stage, w.state.Nodes[i].Name
		p.Name = fmt.Sprintf("%s-%05d", stage, i)
		if p.Since.IsZero() {
			p.Since = noon().Add(-time.Minute)
		}
		w.state.Pods = append(w.state.Pods, &p)
	}
}

// reports sets what feature discovery says of that many nodes, from the first.
func (w *world) reports(nodes int, reason, message string) {
	for i := range nodes {
		n := w.state.Nodes[i]
		n.GPUReady, n.Reason, n.Message, n.Since = "False", reason, message, noon().Add(-time.Minute)
	}
}

// without removes what a stage applied, as before its first roll-out.
func (w *world) without(stages ...string) {
	for _, stage := range stages {
		for ref := range w.state.Objects {
			if ref.Name == stage {
				delete(w.state.Objects, ref)
			}
		}
		*w.daemonSet(stage) = model.DaemonSet{Current: true}
	}
}

// changes makes a stage one that is not what was applied.
func (w *world) changes(stage string) {
	for i := range w.stages {
		if w.stages[i].Name == stage {
			w.stages[i].Objects[1].Object["spec"] = "changed"
		}
	}
}

func (w *world) next() model.Plan { return pass.Next(w.stages, w.state, validate) }

// publish stores what a plan says, as the controller does.
func (w *world) publish(t *testing.T, plan model.Plan) {
	t.Helper()
	w.state.Policy.Status = published(t, plan.Status)
}

// fresh makes the nodes ones that have never offered GPUs.
func (w *world) fresh() {
	for _, n := range w.state.Nodes {
		n.Allocatable, n.Capacity = nil, nil
	}
}
