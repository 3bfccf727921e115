package pass_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// scenarios are what people meet.
func scenarios() map[string]func(*world) {
	pull := model.Pod{
		Phase: "Pending", Reason: "ImagePullBackOff",
		Message: `Back-off pulling image "registry.example/device-plugin:26.12.0": ErrImagePull: failed to resolve reference "registry.example/device-plugin:26.12.0": not found`,
	}
	waits := model.Pod{Phase: "Running", Reason: "NotReady"}
	noDriver := "no driver: libnvidia-ml.so.1 is in none of /usr/lib64, /run/nvidia/driver; " + cause.DriverNotFound.Row().Fix
	return map[string]func(*world){
		"all is well": func(*world) {},
		"no node has a GPU": func(w *world) {
			for i := range w.state.Nodes {
				n := w.state.Nodes[i]
				n.Labels, n.GPUReady, n.Reason, n.Message, n.Allocatable, n.Capacity = nil, "", "", "", nil, nil
			}
			for _, stage := range []string{"container-toolkit", "device-plugin"} {
				ds := w.daemonSet(stage)
				ds.Desired, ds.Updated, ds.Ready = 0, 0, 0
			}
		},
		"nothing looks for GPUs": func(w *world) {
			w.state.Nodes = nil
			w.stages = w.stages[1:]
			for _, ds := range w.state.DaemonSets {
				ds.Desired, ds.Updated, ds.Ready = 0, 0, 0
			}
		},
		"a new version has an image that does not exist": func(w *world) {
			w.daemonSet("container-toolkit").Updated = 1
			w.breaks("container-toolkit", 1, pull)
			w.changes("device-plugin")
		},
		"an agent waits for a driver": func(w *world) {
			w.without("device-plugin")
			w.fresh()
			w.breaks("container-toolkit", 3, waits)
			w.reports(3, "DriverNotFound", noDriver)
		},
		"a node loses its driver": func(w *world) {
			w.breaks("container-toolkit", 1, waits)
			w.breaks("device-plugin", 1, waits)
			w.reports(1, "DriverNotFound", noDriver)
			w.state.Nodes[0].Allocatable = map[string]int64{"nvidia.com/gpu": 0}
		},
		"all GPUs of a node are lost": func(w *world) { w.state.Nodes[0].Allocatable = map[string]int64{"nvidia.com/gpu": 0} },
		"a GPU is lost":               func(w *world) { w.state.Nodes[0].Allocatable = map[string]int64{"nvidia.com/gpu": 7} },
		"a node is opted out": func(w *world) {
			n := w.state.Nodes[0]
			n.Labels["nvidia.com/gpu.deploy.operands"] = "false"
			n.GPUReady, n.Allocatable = "", map[string]int64{"nvidia.com/gpu": 0}
		},
		"the driver hangs on one node": func(w *world) {
			w.reports(1, "DriverHangs", "nvmlDeviceGetMemoryInfo of GPU 3 in NVML's list has not answered for 30s: the driver hangs")
			w.breaks("device-plugin", 1, waits)
		},
		"a node is gone": func(w *world) {
			w.state.Nodes[1].NotReady, w.state.Nodes[1].Since = true, noon().Add(-time.Minute)
			for _, stage := range []string{"feature-discovery", "container-toolkit", "device-plugin"} {
				w.breaks(stage, 2, waits)
				w.state.Pods = slices.DeleteFunc(w.state.Pods, func(p *model.Pod) bool { return p.Node == "n0000" })
				w.daemonSet(stage).Ready++
			}
		},
		"an agent crashes": func(w *world) {
			w.breaks("device-plugin", 1, model.Pod{
				Phase: "Running", Reason: "CrashLoopBackOff", Message: `back-off 5m0s restarting failed container=device-plugin pod=device-plugin-x_gpu(1)`,
			})
		},
		"a pod does not fit": func(w *world) {
			w.breaks("device-plugin", 1, model.Pod{
				Phase: "Pending", Reason: "Unschedulable", Message: "0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't match Pod's node affinity/selector.",
			})
		},
		"a container starts for too long": func(w *world) {
			w.breaks("device-plugin", 1, model.Pod{Phase: "Pending", Reason: "ContainerCreating", Since: noon().Add(-time.Hour)})
		},
		"no pod is created": func(w *world) {
			w.without("device-plugin")
			w.keepObjects("device-plugin")
			w.daemonSet("device-plugin").Desired = 3
		},
		"values are refused": func(w *world) {
			w.state.Policy.Refused = "values: devicePlugn: unknown key; write devicePlugin, or remove it"
		},
		"an object belongs to Helm": func(w *world) {
			w.foreign("device-plugin", "Helm release default/device-plugin")
		},
		"an object is undone each time": func(w *world) {
			ref := daemonSetRef("container-toolkit")
			w.state.Failures[ref] = ref.String() + ": argocd-controller changes it each time after it was applied: let only one program manage it"
		},
		"the API server rejects an object": func(w *world) {
			w.changes("container-toolkit")
			w.state.Failures[daemonSetRef("container-toolkit")] = "apply DaemonSet gpu-operator-resources/container-toolkit: daemonsets.apps is forbidden"
			w.changes("device-plugin")
		},
		"a validation runs": func(w *world) {
			w.stages[1].Validations = []model.Check{{Name: "nvidia-driver-validation", Revision: "1"}}
			w.changes("device-plugin")
		},
		"the pods of an installation start": func(w *world) {
			w.daemonSet("container-toolkit").Ready = 0
			w.begins("container-toolkit", model.Pod{Phase: "Pending", Reason: "ContainerCreating"}, 0, 3)
			w.without("device-plugin")
			w.fresh()
			w.reports(3, "ToolkitNotReady", "toolkit-ready has not been written yet")
		},
		"an installation works on the first node": func(w *world) {
			w.daemonSet("device-plugin").Ready = 1
			w.begins("device-plugin", model.Pod{Phase: "Pending", Reason: "ContainerCreating"}, 1, 3)
			w.fresh()
			w.state.Nodes[0].Allocatable, w.state.Nodes[0].Capacity = map[string]int64{"nvidia.com/gpu": 8}, map[string]int64{"nvidia.com/gpu": 8}
			w.reports(3, "PluginNotReady", "plugin-ready has not been written yet")
			w.state.Nodes[0].GPUReady = "True"
		},
		"a rollout is under way": func(w *world) { w.daemonSet("device-plugin").Updated = 2 },
		"the policy is being deleted": func(w *world) {
			w.state.Policy.Deleting = true
		},
		"a GPU agent is not scheduled anywhere": func(w *world) {
			ds := w.daemonSet("device-plugin")
			ds.Desired, ds.Updated, ds.Ready = 0, 0, 0
			for _, n := range w.state.Nodes {
				n.Allocatable = map[string]int64{"nvidia.com/gpu": 0}
			}
			w.reports(3, "PluginNotReady", "plugin-ready has not been written yet; check whether the pod of device-plugin or dra-plugin runs on this node")
		},
	}
}

func (w *world) keepObjects(stage string) {
	for _, st := range w.stages {
		if st.Name != stage {
			continue
		}
		for _, o := range st.Objects {
			ref := model.RefOf(o)
			w.state.Objects[ref] = model.Seen{Ref: ref, UID: "u", Ours: true, Applied: model.Hash(o)}
		}
	}
}

func (w *world) foreign(stage, owner string) {
	ref := daemonSetRef(stage)
	w.state.Objects[ref] = model.Seen{Ref: ref, UID: "u", Owner: "helm"}
	if owner != "" {
		w.state.Failures[ref] = ref.String() + " exists and is managed by " + owner + ": it is not changed; remove it, or take it over with apply --adopt (for a ClusterPolicy: annotation outrigger.dev/adopt=true)"
	}
}

// TestStatus compares what people are told with the golden files, and the columns of kubectl
// get clusterpolicy with the documentation.
func TestStatus(t *testing.T) {
	table := [][]string{}
	for name, change := range scenarios() {
		t.Run(name, func(t *testing.T) {
			w := healthy(3)
			w.publish(t, w.next())
			change(w)
			plan := w.next()
			table = append(table, columns(name, plan.Status))
			golden.Assert(t, told(t, plan), filepath.Join("status", strings.ReplaceAll(name, " ", "-")+".json"))
			w.publish(t, plan)
			w.state.Now = w.state.Now.Add(time.Second)
			if again := w.next(); len(again.Events) > 0 || !same(t, again.Status, w.state.Policy.Status) {
				t.Errorf("a second pass tells something else: %+v", told(t, again))
			}
		})
	}
	slices.SortFunc(table, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	var out strings.Builder
	for _, row := range table {
		fmt.Fprintf(&out, "# %s\n%s\n", row[0], strings.Join(row[1:], "   "))
	}
	golden.Assert(t, out.String(), "columns.txt")
}

// columns returns the columns of kubectl get gpupolicy, without the age.
func columns(name string, s model.Status) []string {
	message := ""
	for _, c := range s.Conditions {
		if c.Type == model.ConditionReady {
			message = c.Message
		}
	}
	return []string{name, s.State, fmt.Sprint(s.ReadyNodes), fmt.Sprint(s.GPUNodes), message}
}

// told returns the status and the events of a plan, and what it writes, as people read it.
func told(t *testing.T, plan model.Plan) string {
	t.Helper()
	status := plan.Status
	status.Inventory = nil
	var writes []string
	for _, a := range plan.Apply {
		writes = append(writes, "apply "+model.RefOf(a.Object).String())
	}
	for _, p := range plan.Create {
		writes = append(writes, "create pod "+p.GetName())
	}
	for _, d := range plan.Delete {
		writes = append(writes, "delete "+d.Ref.String())
	}
	out, err := json.MarshalIndent(struct {
		Status model.Status  `json:"status"`
		Events []model.Event `json:"events"`
		Writes []string      `json:"writes"`
		Again  string        `json:"again"`
	}{status, plan.Events, writes, plan.Again.String()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}
