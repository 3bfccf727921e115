package main

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/kube/apitest"
)

// startInPod starts feature discovery in the node, with an API server.
func startInPod(t *testing.T, n *simtest.Node, api *apitest.API, args ...string) *process {
	t.Helper()
	cmd := agenttest.Command(t, n, append([]string{
		"--node-name", api.Name, "--run-root", t.TempDir(), "--listen", "127.0.0.1:0",
	}, args...)...)
	agenttest.InPod(t, cmd, api.Config.Host, apitest.Account(t, api.Config))
	return &process{Process: agenttest.Start(t, cmd), t: t}
}

// node waits until ok holds for the Node.
func (p *process) node(api *apitest.API, what string, ok func(apitest.Node) bool) {
	p.t.Helper()
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the Node is %+v", api.Node())
		}
	}()
	agenttest.Poll(p.t, what, func() bool { return ok(api.Node()) })
}

// gpuReady waits until the condition has the status and the reason.
func (p *process) gpuReady(api *apitest.API, status, reason string) {
	p.t.Helper()
	p.node(api, "GPUReady to be "+status+" "+reason, func(n apitest.Node) bool {
		return slices.ContainsFunc(n.Conditions, func(c apitest.Condition) bool {
			return c.Type == "GPUReady" && c.Status == status && c.Reason == reason
		})
	})
}

// ours returns the labels of nvidia.com, without that domain.
func ours(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if name, ok := strings.CutPrefix(key, "nvidia.com/"); ok {
			out[name] = value
		}
	}
	return out
}

func TestNodeObject(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=l4", "--driver=off")
	api := apitest.New(t, map[string]string{"zone": "a"})
	taint := apitest.Taint{Key: "outrigger.dev/gpu-not-ready", Effect: "NoSchedule"}
	other := apitest.Taint{Key: "example.com/maintenance", Effect: "NoExecute"}
	api.Update("kubelet", func(n *apitest.Node) { n.Taints = []apitest.Taint{taint, other} })
	p := startInPod(t, n, api, "--ready-chain", "driver")
	p.gpuReady(api, "False", "DriverNotFound")
	if node := api.Node(); len(ours(node.Labels)) > 0 || len(node.Taints) != 2 {
		t.Errorf("without a driver the Node is %+v", node)
	}

	n.Run("set", "driver=on")
	p.gpuReady(api, "True", "GPUsReady")
	want := simulated(t, n)
	p.node(api, "the labels, and the taint to go", func(n apitest.Node) bool {
		return includes(ours(n.Labels), want) && slices.Equal(n.Taints, []apitest.Taint{other})
	})
	p.ready()
	made := api.Node().Labels

	api.Update("somebody", func(n *apitest.Node) { delete(n.Labels, "nvidia.com/gpu.count") })
	p.node(api, "the label to come back", func(n apitest.Node) bool { return n.Labels["nvidia.com/gpu.count"] == "2" })
	n.Run("set", "driver=off")
	p.gpuReady(api, "False", "DriverNotFound")
	n.Run("set", "driver=on")
	p.gpuReady(api, "True", "GPUsReady")

	p.Stop()
	patches := api.Requests()["patch nodes"]
	next := startInPod(t, n, api, "--ready-chain", "driver")
	next.ready()
	next.Hangup(1)
	next.Stop()
	if now := api.Requests()["patch nodes"]; now != patches {
		t.Errorf("a new process sent %d patches of the Node, which was as it should be", now-patches)
	}
	now := api.Node()
	for _, labels := range []map[string]string{made, now.Labels} {
		delete(labels, "nvidia.com/gfd.timestamp") // a label was gone for a moment
	}
	if !maps.Equal(now.Labels, made) || now.Labels["zone"] != "a" {
		t.Errorf("in the end the labels are %v, want %v", now.Labels, made)
	}
}

// A pod that ends takes everything back where its DaemonSet selects the node no more, and nothing
// where the DaemonSet does: it is updated, or the node is drained, or its kubelet restarts.
func TestWhatIsPublishedGoesWithTheNodeFromTheDaemonSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		// published says whether the Node has all that the part publishes, or nothing of it.
		published func(n apitest.Node) (all, none bool)
	}{
		"labels": {[]string{"--ready-chain", "driver"}, func(n apitest.Node) (bool, bool) {
			condition := slices.ContainsFunc(n.Conditions, func(c apitest.Condition) bool { return c.Type == "GPUReady" })
			labels := ours(n.Labels)
			return condition && labels["gpu.count"] == "1", !condition && len(labels) == 0
		}},
		"presence": {[]string{"--presence", "--host-root", "/"}, func(n apitest.Node) (bool, bool) {
			labels := ours(n.Labels)
			return labels["gpu.present"] == "true", len(labels) == 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := simtest.New(t, "--gpus=1", "--model=l4")
			api := apitest.New(t, map[string]string{"pool": "gpu"})
			const all = "/apis/apps/v1/namespaces/default/daemonsets"
			api.Do(http.MethodPost, all, daemonSet(api.Name, "gpu"), &struct{}{})
			becomes := func(pool string) {
				api.Do(http.MethodPut, all+"/"+api.Name, daemonSet(api.Name, pool), &struct{}{})
			}
			stopped := func() apitest.Node {
				p := startInPod(t, n, api, append(tc.args, "--namespace", "default", "--daemonset-name", api.Name)...)
				p.ready()
				p.node(api, "all to be published", func(n apitest.Node) bool { return first(tc.published(n)) })
				p.Stop()
				return api.Node()
			}
			if node := stopped(); !first(tc.published(node)) {
				t.Errorf("a pod that the DaemonSet replaces leaves %+v", node)
			}
			// The template is another one, also for this node.
			becomes("")
			api.Update("kubectl", func(n *apitest.Node) {
				n.Taints = []apitest.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}, {Key: "out", Effect: "NoExecute"}}
			})
			if node := stopped(); !first(tc.published(node)) {
				t.Errorf("a pod of a node that is drained leaves %+v", node)
			}
			becomes("cpu")
			node := stopped()
			if _, none := tc.published(node); !none || node.Labels["pool"] != "gpu" {
				t.Errorf("a pod of a node that the DaemonSet selects no more leaves %+v", node)
			}
		})
	}
}

// daemonSet returns a DaemonSet for the nodes of a pool, or for all.
func daemonSet(name, pool string) map[string]any {
	labels, pod := map[string]any{"app": name}, map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image"}}}
	if pool != "" {
		pod["nodeSelector"] = map[string]any{"pool": pool}
	}
	return map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod},
	}}
}

func first(all, _ bool) bool { return all }

// An API server that is away is shown while what the agent wrote still stands.
func TestAnAPIServerThatGoesAwayIsShown(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"labels": nil, "presence": {"--presence", "--host-root", "/"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := simtest.New(t, "--gpus=1", "--model=l4")
			api := apitest.New(t, nil)
			p := startInPod(t, n, api, args...)
			p.ready()
			api.Unavailable(math.MaxInt)
			api.Cut()
			p.unready("changes on the API server are not seen: ", "nodes: the API server answers 503")
			api.Unavailable(0)
			p.ready()
		})
	}
}

// Presence needs no driver, and says nothing of a node without GPUs.
func TestPresence(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=0", "--driver=off")
	api := apitest.New(t, nil)
	p := startInPod(t, n, api, "--presence", "--host-root", "/")
	p.Said("no NVIDIA GPU on the PCI bus, waiting for one")
	p.ready()
	if got := api.Node().Labels; len(got) > 0 {
		t.Errorf("a node without a GPU has the labels %v", got)
	}
	n.Run("plug", "--model=l4")
	p.node(api, "the labels of presence", func(n apitest.Node) bool {
		return n.Labels["nvidia.com/gpu.present"] == "true" && n.Labels["feature.node.kubernetes.io/pci-10de.present"] == "true" &&
			n.Labels["feature.node.kubernetes.io/kernel-version.full"] != ""
	})
	p.ready()
	if n.Called() {
		t.Errorf("NVML was called:\n%s", n.Run("calls"))
	}
}
