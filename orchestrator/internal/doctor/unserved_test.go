package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// TestANodeThatNoAgentServes has GPU nodes without a condition, a resource and a pod of an agent. A diagnosis never says that
// they work: not of one node, not of the cluster, and not of a cluster with too many such nodes to look at each closely.
func TestANodeThatNoAgentServes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *cluster, n *corev1.Node)
		want   cause.Code
		exit   int
		// evidence is in the finding of the cluster, which has no pods of a node.
		evidence string
	}{
		"only a PCI label, which no agent selects": {func(_ *cluster, n *corev1.Node) {
			n.Labels = map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"}
		}, cause.AgentMissing, 4, "nvidia-device-plugin does not select the node"},
		"a taint that no agent tolerates": {func(_ *cluster, n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule}}
		}, cause.AgentMissing, 4, "nvidia-device-plugin does not tolerate the taint team=red:NoSchedule"},
		"no DaemonSet of the device plugin": {func(c *cluster, n *corev1.Node) {
			c.DaemonSets = nil
			offer(n, gpu, 0, 0) // the kubelet keeps the name of the resource
		}, cause.AgentMissing, 4, "no DaemonSet of a device plugin"},
		"a new node whose labels may come": {func(_ *cluster, n *corev1.Node) {
			n.Labels = map[string]string{"feature.node.kubernetes.io/pci-0302_10de.present": "true"}
			n.CreationTimestamp = ago(2 * time.Minute)
		}, cause.AgentMissing, 3, "does not select the node"},
		"a new node without pods yet": {func(_ *cluster, n *corev1.Node) { n.CreationTimestamp = ago(time.Second) }, cause.PluginNotReady, 3, "check the pods"},
		"DaemonSets that could not be read": {func(c *cluster, _ *corev1.Node) {
			c.DaemonSets, c.Unseen = nil, []facts.Unseen{{What: "DaemonSets", Why: "forbidden"}}
		}, cause.PluginNotReady, 3, "check that feature discovery and the device plugin run there"},
		"an archive without DaemonSets": {func(c *cluster, _ *corev1.Node) {
			c.DaemonSets, c.Unseen = nil, []facts.Unseen{{What: "the file must-gather/daemonsets.yaml", Why: "it is damaged"}}
		}, cause.PluginNotReady, 3, "check that"},
	} {
		for _, count := range []int{1, 12} {
			t.Run(fmt.Sprintf("%s, %d nodes", name, count), func(t *testing.T) {
				c := healthy()
				for i := range count {
					tc.change(c, c.unserved(fmt.Sprintf("gpu-%d", i)))
				}
				for _, target := range []facts.Target{{Node: "gpu-0"}, {}} {
					r := doctor.Diagnose(c.Facts, target)
					if len(r.Findings) == 0 || r.Findings[0].Code != tc.want || r.ExitCode() != tc.exit || strings.Contains(r.Verdict, "works") {
						t.Fatalf("want %s and the exit code %d, got %d:\n%s", tc.want, tc.exit, r.ExitCode(), text(r))
					}
					if target.Node == "" && (r.Findings[0].Nodes != count || count > 10 && !strings.Contains(r.Findings[0].Evidence, tc.evidence)) {
						t.Errorf("want %d nodes and %q in:\n%s", count, tc.evidence, text(r))
					}
				}
			})
		}
	}
}

// unserved adds a GPU node without a condition, a resource and a pod of an agent.
func (c *cluster) unserved(name string) *corev1.Node {
	n := c.addNode(name)
	n.Status.Conditions, n.Status.Capacity, n.Status.Allocatable = n.Status.Conditions[:1], nil, nil
	for _, a := range agents() {
		c.remove(a, name)
	}
	return n
}

// TestAMissingPod has a node whose DaemonSets select it, and whose pods were all read, or not.
func TestAMissingPod(t *testing.T) {
	for unseen, want := range map[string]cause.Code{
		"": cause.AgentMissing, "logs of 3 of 9 pods": cause.AgentMissing,
		"pods of the node n1": cause.PluginNotReady, "pods": cause.PluginNotReady, "the file pods.yaml": cause.PluginNotReady, "3 of 9 pods": cause.PluginNotReady,
		"the file must-gather/gpu_operand_pods.yaml": cause.PluginNotReady,
	} {
		c := healthy()
		c.unserved(node)
		if unseen != "" {
			c.Unseen = []facts.Unseen{{What: unseen, Why: "forbidden"}}
		}
		for _, target := range []facts.Target{{}, onNode()} {
			if r := doctor.Diagnose(c.Facts, target); len(r.Findings) == 0 || r.Findings[0].Code != want {
				t.Errorf("%s without %q: want %s, got:\n%s", target, unseen, want, text(r))
			}
		}
	}
}

// TestNoGPUNode has clusters in which no node has a GPU, as far as labels say.
func TestNoGPUNode(t *testing.T) {
	c := healthy()
	n := c.unserved("plain")
	n.Labels = nil
	if r := doctor.Diagnose(c.Facts, facts.Target{}); len(r.Findings) != 1 || r.Findings[0].Code != cause.NFDLabelsMissing || r.ExitCode() != 4 {
		t.Errorf("exit code %d:\n%s", r.ExitCode(), text(r))
	}
}
