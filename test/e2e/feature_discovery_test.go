//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

const (
	featureDiscovery = "feature-discovery"
	presence         = featureDiscovery + "-presence"
	gpuReady         = "GPUReady"
	// soon is for what takes a second; what it took is logged.
	soon = 10 * time.Second
)

// discovery installs feature discovery until the test ends, on Nodes that have
// nothing it writes, and waits until it is ready.
func discovery(t *testing.T, values ...string) *stack.API {
	t.Helper()
	api := bare(t)
	installDiscovery(t, false, values...)
	return api
}

// sayWhy prints the agent's log if the test fails.
func sayWhy(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "-n", stack.Namespace, "logs",
			"--selector=app.kubernetes.io/instance="+featureDiscovery, "--prefix", "--tail=40")
		t.Logf("the log of %s (error %v):\n%s", featureDiscovery, err, out)
	})
}

// bare takes feature discovery and the device plugin away, and all that the
// first has written to the Nodes: now, and when the test ends.
func bare(t *testing.T) *stack.API {
	t.Helper()
	api, err := shared.Admin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	clear := func(ctx context.Context) {
		for _, chart := range []string{featureDiscovery, "device-plugin"} {
			if err := shared.Uninstall(ctx, chart); err != nil {
				t.Error(err)
			}
		}
		for _, node := range shared.Nodes() {
			if err := forget(ctx, api, node); err != nil {
				t.Errorf("forget what was written to %s: %v", node, err)
			}
		}
	}
	clear(t.Context())
	t.Cleanup(func() {
		clear(context.WithoutCancel(t.Context()))
		// By this the other tests' charts find the node.
		kubectlCleanup(t, "label", "node", gpuNode(), "--overwrite", stack.PCILabel+"=true")
	})
	return api
}

// forget removes from a Node what feature discovery may have written, and what
// the cluster marks GPU nodes by.
func forget(ctx context.Context, api *stack.API, node string) error {
	n, err := api.Node(ctx, node)
	if err != nil {
		return err
	}
	labels := map[string]any{}
	for key := range n.Labels {
		if ours(key) {
			labels[key] = nil
		}
	}
	patch := map[string]any{"metadata": map[string]any{"labels": labels}}
	if err := api.Patch(ctx, stack.NodePath(node), stack.MergePatch, patch); err != nil {
		return err
	}
	return removeReady(ctx, api, node)
}

// removeReady removes the condition GPUReady from a Node.
func removeReady(ctx context.Context, api *stack.API, node string) error {
	condition := map[string]any{"$patch": "delete", "type": gpuReady}
	patch := map[string]any{"status": map[string]any{"conditions": []any{condition}}}
	return api.Patch(ctx, stack.NodePath(node)+"/status", stack.StrategicPatch, patch)
}

// ours reports whether a label may be one of feature discovery's.
func ours(label string) bool {
	return strings.HasPrefix(label, "nvidia.com/") || strings.HasPrefix(label, "feature.node.kubernetes.io/")
}

// installDiscovery installs feature discovery.
func installDiscovery(t *testing.T, noWait bool, values ...string) {
	t.Helper()
	release, err := shared.Agent(featureDiscovery, values...)
	if err != nil {
		t.Fatal(err)
	}
	release.NoWait = noWait
	sayWhy(t)
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
}

// podOf is the name of the pod of a DaemonSet on a node, empty for none.
func podOf(t *testing.T, daemonSet, node string) string {
	t.Helper()
	// A DaemonSet's pods have its name and five letters.
	for line := range strings.Lines(kubectl(t, "-n", stack.Namespace, "get", "pods", "--field-selector=spec.nodeName="+node,
		"-o", `jsonpath={range .items[*]}{.metadata.ownerReferences[0].name} {.metadata.name}{"\n"}{end}`)) {
		if owner, pod, _ := strings.Cut(strings.TrimSpace(line), " "); owner == daemonSet {
			return pod
		}
	}
	return ""
}

// sight is the first time at which something was true of a Node.
type sight struct {
	at   time.Time
	node stack.Node
	err  error
}

// observe begins to watch a Node, and returns a function that waits until holds is true
// of it. Call observe before what makes holds true.
func observe(t *testing.T, api *stack.API, node string, holds func(stack.Node) bool) func() sight {
	t.Helper()
	begun := make(chan struct{})
	seen := make(chan sight, 1)
	go func() {
		first := true
		n, err := api.WaitNode(t.Context(), node, limit, func(n stack.Node) bool {
			if first {
				close(begun)
				first = false
			}
			return holds(n)
		})
		if first {
			close(begun)
		}
		seen <- sight{time.Now(), n, err}
	}()
	<-begun
	return func() sight { return <-seen }
}

// nodeIs waits until something holds of a Node, and returns it.
func nodeIs(t *testing.T, api *stack.API, node, what string, holds func(stack.Node) bool) stack.Node {
	t.Helper()
	n, err := api.WaitNode(t.Context(), node, limit, holds)
	if err != nil {
		t.Fatalf("wait until %s: %v; %s has labels %v, conditions %v, taints %v", what, err, node, gpuLabels(n), n.Conditions[gpuReady], n.Taints)
	}
	return n
}

// gpuLabels are the labels of a Node that describe GPUs, without the time at which they
// were written.
func gpuLabels(n stack.Node) map[string]string {
	labels := maps.Clone(n.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return !strings.HasPrefix(key, "nvidia.com/") || key == "nvidia.com/gfd.timestamp"
	})
	return labels
}

// labelled reports whether a Node has labels, among others.
func labelled(want map[string]string) func(stack.Node) bool {
	return func(n stack.Node) bool {
		for key, value := range want {
			if got, ok := n.Labels[key]; !ok || got != value {
				return false
			}
		}
		return true
	}
}

func TestLabelsAppearWhenTheDriverIsLoaded(t *testing.T) {
	simulate(t, "set", "driver=off")
	t.Cleanup(func() { driver(context.WithoutCancel(t.Context()), t, "on") })
	api := bare(t)
	installDiscovery(t, true)
	// The presence part finds the GPUs on the bus, and by its label the other
	// part comes to the node.
	nodeIs(t, api, gpuNode(), "the GPUs on the bus are reported", labelled(map[string]string{stack.PCILabel: "true"}))
	eventually(t, "the agent says that it waits for the driver", func() bool {
		pod := podOf(t, featureDiscovery, gpuNode())
		if pod == "" {
			return false
		}
		out, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", pod)
		return err == nil && strings.Contains(out, "waiting")
	})
	if n, err := api.Node(t.Context(), gpuNode()); err != nil || n.Labels["nvidia.com/gpu.count"] != "" {
		t.Fatalf("without a driver the node has labels %v (error %v)", gpuLabels(n), err)
	}
	pod := podOf(t, featureDiscovery, gpuNode())

	want := map[string]string{"nvidia.com/gpu.count": fmt.Sprint(gpus), "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
	seen := observe(t, api, gpuNode(), labelled(want))
	driver(t.Context(), t, "on")
	loaded := time.Now()
	labels := seen()
	if labels.err != nil {
		t.Fatalf("after the driver was loaded the node has %v: %v", gpuLabels(labels.node), labels.err)
	}
	took(t, "the labels after the driver was loaded", labels.at.Sub(loaded), time.Second)
	ready := nodeIs(t, api, gpuNode(), "the node is ready for GPU pods", readyIs("True", ""))
	t.Logf("the node has %v and %+v", gpuLabels(ready), ready.Conditions[gpuReady])
	if now := podOf(t, featureDiscovery, gpuNode()); now != pod {
		t.Errorf("pod %s became %s, want the same pod", pod, now)
	}
}

// driver loads ("on") or unloads ("off") the driver of the GPU node.
func driver(ctx context.Context, t *testing.T, state string) {
	t.Helper()
	if _, err := shared.Simulate(ctx, gpuNode(), "set", "driver="+state); err != nil {
		t.Error(err)
	}
}

// took logs how long something took, and how long it should take. Machines that run
// tests stall, so it fails only far above.
func took(t *testing.T, what string, d, want time.Duration) {
	t.Helper()
	t.Logf("%s: %s (goal: %s)", what, d.Round(time.Millisecond), want)
	if d > soon {
		t.Errorf("%s took %s, want at most %s", what, d, want)
	}
}

// TestFeatureDiscoveryWithDefaults checks what the chart's defaults give.
func TestFeatureDiscoveryWithDefaults(t *testing.T) {
	api := discovery(t)
	nodeIs(t, api, gpuNode(), "the GPUs on the bus are reported", labelled(map[string]string{stack.PCILabel: "true"}))
	nodeIs(t, api, gpuNode(), "the GPU node is ready", readyIs("True", ""))
	t.Run("a node without GPUs stays clean", func(t *testing.T) { aNodeWithoutGPUsStaysClean(t, api) })
	t.Run("the token of presence writes its own only", thePresencesTokenWritesItsOwnOnly)
	t.Run("a token without a node writes nothing", aTokenWithoutANodeWritesNothing)
}

func aNodeWithoutGPUsStaysClean(t *testing.T, api *stack.API) {
	t.Helper()
	node := shared.Nodes()[0]
	if podOf(t, presence, node) == "" {
		t.Errorf("%s does not run the presence part", node)
	}
	if pod := podOf(t, featureDiscovery, node); pod != "" {
		t.Errorf("%s runs %s, want no agent that needs a GPU", node, pod)
	}
	n, err := api.Node(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range n.Labels {
		if ours(key) {
			t.Errorf("%s has label %s=%s of %v, want none", node, key, value, n.Owners[key])
		}
	}
	if c, ok := n.Conditions[gpuReady]; ok {
		t.Errorf("%s has condition %+v, want none", node, c)
	}
}

// sharedConfig has a config in which GPUs are shared, for nodes that choose it.
func sharedConfig() []string {
	return []string{"config.map.alone=version: v1", "config.default=alone", `config.map.shared=
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
`}
}

func TestLabelsFollowTheConfigThatTheNodeChooses(t *testing.T) {
	api := discovery(t, sharedConfig()...)
	alone := labelled(map[string]string{
		"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
	})
	nodeIs(t, api, gpuNode(), "the GPUs are not shared", alone)
	seen := observe(t, api, gpuNode(), labelled(map[string]string{
		"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
	}))
	kubectl(t, "label", "node", gpuNode(), configLabel+"=shared")
	begin := time.Now()
	shared := seen()
	if shared.err != nil {
		t.Fatalf("the node has %v: %v", gpuLabels(shared.node), shared.err)
	}
	took(t, "the labels after the node chose another config", shared.at.Sub(begin), time.Second)
	kubectl(t, "label", "node", gpuNode(), configLabel+"-")
	nodeIs(t, api, gpuNode(), "the GPUs are not shared any more", alone)
}

func TestLabelsFollowTheMIGLayout(t *testing.T) {
	api := discovery(t, "migStrategy=mixed")
	nodeIs(t, api, gpuNode(), "all GPUs are whole", labelled(map[string]string{"nvidia.com/gpu.count": fmt.Sprint(gpus), "nvidia.com/mig.strategy": "mixed"}))
	const small, big = "nvidia.com/mig-1g.10gb.count", "nvidia.com/mig-3g.40gb.count"

	seen := observe(t, api, gpuNode(), labelled(map[string]string{small: "2", big: "1"}))
	divide(t, "3g.40gb", "1g.10gb", "1g.10gb")
	begin := time.Now()
	divided := seen()
	if divided.err != nil {
		t.Fatalf("after a GPU was divided the node has %v: %v", gpuLabels(divided.node), divided.err)
	}
	took(t, "the labels after a GPU was divided", divided.at.Sub(begin), time.Second)

	simulate(t, "mig destroy", "0", "all")
	simulate(t, "mig create", "0", "1g.10gb")
	n := nodeIs(t, api, gpuNode(), "the new layout is reported", func(n stack.Node) bool {
		_, stale := n.Labels[big]
		return n.Labels[small] == "1" && !stale
	})
	t.Logf("the node has %v", gpuLabels(n))
	simulate(t, "mig destroy", "0", "all")
	simulate(t, "mig mode", "0", "off")
	nodeIs(t, api, gpuNode(), "the GPU is whole again", func(n stack.Node) bool {
		_, stale := n.Labels[small]
		return !stale && n.Labels["nvidia.com/gpu.count"] == fmt.Sprint(gpus)
	})
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	// The agents read the GPUs every 5 s.
	quiet := lasting(t, "OUTRIGGER_IDLE", 20*time.Second)
	begin := time.Now()
	api := discovery(t, "readyChain={driver,plugin}")
	plugin(t)
	nodeIs(t, api, gpuNode(), "the node is ready for GPU pods", readyIs("True", ""))
	accounts := []string{featureDiscovery, presence}
	for _, account := range accounts {
		if !writes(t, account, begin) {
			t.Fatalf("the audit log has no write of %s, which has written the node's labels", account)
		}
	}

	begin = time.Now()
	select {
	case <-time.After(quiet):
	case <-t.Context().Done():
	}
	for _, account := range accounts {
		requests, err := shared.Requests(account, begin)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s asked %d times in %s", account, len(requests), quiet)
		for _, r := range requests {
			t.Log(r)
		}
		if writes(t, account, begin) {
			t.Errorf("%s wrote to the API server although nothing changed", account)
		}
	}
}

// lasting is how long a test lasts: in a soak, what its variable asks for.
func lasting(t *testing.T, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	text, found := os.LookupEnv(variable)
	if !found {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("read %s: %q is no time such as 10m (error %v)", variable, text, err)
	}
	return d
}

// writes reports whether a service account wrote to the API server since a time.
func writes(t *testing.T, account string, since time.Time) bool {
	t.Helper()
	requests, err := shared.Requests(account, since)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Writes() {
			return true
		}
	}
	return false
}
