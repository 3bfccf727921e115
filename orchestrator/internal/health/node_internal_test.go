package health

import (
	"testing"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

func now() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) time.Time { return now().Add(-d) }

// gpus returns the resources of a kubelet.
func gpus(n int64) map[string]int64 { return map[string]int64{"nvidia.com/gpu": n} }

// TestNodes has a table of all facts of a node that say whether its GPUs can be used.
func TestNodes(t *testing.T) {
	const short, long = 5 * time.Second, time.Minute
	works := model.Node{GPUReady: "True", Allocatable: gpus(8), Capacity: gpus(8)}
	with := func(changes ...func(*model.Node)) model.Node {
		n := works
		n.Labels = map[string]string{"nvidia.com/gpu.present": "true"}
		for _, change := range changes {
			change(&n)
		}
		return n
	}
	label := func(key, value string) func(*model.Node) { return func(n *model.Node) { n.Labels[key] = value } }
	reports := func(reason cause.Code, since time.Duration) func(*model.Node) {
		return func(n *model.Node) { n.GPUReady, n.Reason, n.Since = "False", string(reason), ago(since) }
	}
	offers := func(count int64, since time.Duration) func(*model.Node) {
		return func(n *model.Node) { n.Allocatable, n.ShortSince = gpus(count), ago(since) }
	}
	fresh := func(n *model.Node) { n.Allocatable, n.Capacity = nil, nil }
	down := func(since time.Duration) func(*model.Node) {
		return func(n *model.Node) { n.NotReady, n.Since = true, ago(since) }
	}
	for name, tc := range map[string]struct {
		node  model.Node
		want  string
		cause cause.Code
		// failed says that the cause counts.
		failed bool
	}{
		"it works":                           {with(), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"it works without feature discovery": {with(func(n *model.Node) { n.GPUReady = "" }), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"it works with DRA":                  {with(fresh), "1 of 1 GPU node ready", "", false},
		"nobody knows":                       {with(fresh, func(n *model.Node) { n.GPUReady = "" }), "0 of 1 GPU node ready", "", false},
		"a GPU is lost for a moment":         {with(offers(7, short)), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"a GPU is lost":                      {with(offers(7, long)), "1 of 1 GPU node ready, 7 of 8 GPUs", cause.GPUsFaulty, true},
		"all GPUs are lost for a moment":     {with(offers(0, short)), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"all GPUs are lost":                  {with(offers(0, long)), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.AllGPUsFaulty, true},
		"the plugin restarts":                {with(reports(cause.PluginNotReady, short)), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"the plugin is gone":                 {with(reports(cause.PluginNotReady, long), offers(0, long)), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.PluginNotReady, true},
		"the toolkit restarts":               {with(reports(cause.ToolkitWriterDead, short)), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"a new node offers GPUs before its MIG manager is ready": {with(reports(cause.MIGNotReady, long)), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.MIGNotReady, false},
		"the toolkit is not ready for long":                      {with(reports(cause.ToolkitNotReady, time.Hour)), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.ToolkitNotReady, true},
		"the driver is gone":                                     {with(reports(cause.DriverNotFound, long), offers(0, long)), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.DriverNotFound, true},
		"a new node has no driver yet":                           {with(fresh, reports(cause.DriverNotFound, long)), "0 of 1 GPU node ready", cause.DriverNotFound, false},
		"a new node has no driver for long":                      {with(fresh, reports(cause.DriverNotFound, time.Hour)), "0 of 1 GPU node ready", cause.DriverNotFound, true},
		"a new node has no toolkit yet":                          {with(fresh, reports(cause.ToolkitNotReady, long)), "0 of 1 GPU node ready", cause.ToolkitNotReady, false},
		"a new node starts its toolkit":                          {with(fresh, reports(cause.ToolkitNotReady, short)), "0 of 1 GPU node ready", "", false},
		"a new node hangs":                                       {with(fresh, reports(cause.DriverHangs, long)), "0 of 1 GPU node ready", cause.DriverHangs, true},
		"a driver is upgraded":                                   {with(reports(cause.DriverNotFound, long), label("nvidia.com/gpu-driver-upgrade-state", "swapping-required")), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.DriverNotFound, false},
		"a MIG layout is applied":                                {with(reports(cause.PluginNotReady, long), label("nvidia.com/mig.config.state", "pending")), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.PluginNotReady, false},
		"the resource of the layout before is idle": {with(func(n *model.Node) {
			n.Allocatable = map[string]int64{"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 7}
			n.Capacity = map[string]int64{"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 7}
		}), "1 of 1 GPU node ready, 7 of 7 GPUs", "", false},
		"the node is down for a moment":        {with(down(short)), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"the node is down":                     {with(down(long)), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.NodeNotReady, true},
		"it is opted out":                      {with(reports(cause.PluginNotReady, long), label("nvidia.com/gpu.deploy.operands", "false")), "0 of 0 GPU nodes ready, 1 opted out", "", false},
		"it is opted out of the device plugin": {with(offers(0, long), label("nvidia.com/gpu.deploy.device-plugin", "false")), "0 of 0 GPU nodes ready, 1 opted out", "", false},
		"it is opted out, and works":           {with(label("nvidia.com/gpu.deploy.operands", "false")), "1 of 1 GPU node ready, 8 of 8 GPUs", "", false},
		"it is opted out of the exporter":      {with(offers(0, long), label("nvidia.com/gpu.deploy.dcgm-exporter", "false")), "0 of 1 GPU node ready, 0 of 8 GPUs", cause.AllGPUsFaulty, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := New([]model.Stage{{Name: "device-plugin"}}, model.State{Now: now(), Nodes: []*model.Node{&tc.node}})
			if got := v.Nodes.String(); got != tc.want {
				t.Errorf("the nodes are %q, want %q", got, tc.want)
			}
			var got cause.Code
			if problems, _ := v.Problems(); len(problems) > 0 {
				got = cause.Code(problems[0].Cause)
			}
			if got != tc.cause || (v.Nodes.Failed > 0) != tc.failed {
				t.Errorf("the cause is %q, and %d nodes have failed; want %q, %t", got, v.Nodes.Failed, tc.cause, tc.failed)
			}
		})
	}
}

// Without a device plugin in the policy, resources without devices are leftovers: the kubelet keeps
// them for minutes after the plugin has ended.
func TestNodesWithoutADevicePlugin(t *testing.T) {
	plugin := []model.Stage{{Name: "device-plugin/a100", Pool: "a100"}}
	for name, tc := range map[string]struct {
		stages         []model.Stage
		refused        string
		gpuReady       string
		offered, usual int64
		want           string
	}{
		"the plugin of a pool":          {plugin, "", "True", 0, 8, "0 of 1 GPU node ready, 0 of 8 GPUs"},
		"leftovers of a plugin":         {nil, "", "True", 0, 8, "1 of 1 GPU node ready"},
		"leftovers without a condition": {nil, "", "", 0, 8, "0 of 1 GPU node ready"},
		"the plugin of another release": {nil, "", "True", 7, 8, "1 of 1 GPU node ready, 7 of 8 GPUs"},
		"the values are refused":        {nil, "unknown keys", "True", 0, 8, "0 of 1 GPU node ready, 0 of 8 GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			n := model.Node{
				Labels: map[string]string{"nvidia.com/gpu.present": "true"}, GPUReady: tc.gpuReady,
				Allocatable: gpus(tc.offered), Capacity: gpus(tc.usual), ShortSince: ago(time.Minute),
			}
			v := New(tc.stages, model.State{Now: now(), Policy: model.Policy{Refused: tc.refused}, Nodes: []*model.Node{&n}})
			if got := v.Nodes.String(); got != tc.want {
				t.Errorf("the nodes are %q, want %q", got, tc.want)
			}
		})
	}
}
