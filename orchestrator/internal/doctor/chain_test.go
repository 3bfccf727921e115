package doctor_test

import (
	"strings"
	"testing"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// TestTheChainShowsOnlyWhatIsKnown has the line of the chain for each kind of proof that a link works.
func TestTheChainShowsOnlyWhatIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *cluster)
		want   string
	}{
		"nothing is known before the plugin": {func(c *cluster) {
			c.unserved(node)
			c.node(node).Spec.Taints = nil
		}, "PCI ✗ → driver … → device nodes …"},
		"only the plugin's pod is known, which has no image": {func(c *cluster) {
			c.addNode(node)
			c.alone(facts.DevicePlugin)
			c.fails(facts.DevicePlugin, node, cause.ImagePullBackOff)
		}, "PCI → driver ? → device nodes ? → toolkit ? → runtime ? → CDI ? → plugin ✗ → kubelet …"},
		"the pods of some agents are ready": {func(c *cluster) {
			c.addNode(node)
			c.alone(facts.DriverLoader, facts.ContainerToolkit, facts.DevicePlugin)
			c.fails(facts.DevicePlugin, node, cause.ImagePullBackOff)
		}, "PCI → driver → device nodes ? → toolkit → runtime ? → CDI ? → plugin ✗ → kubelet …"},
		"the condition names the toolkit": {func(c *cluster) {
			c.addNode(node)
			c.alone()
			c.unready(node, cause.ToolkitUnreadable)
		}, "PCI → driver → device nodes → toolkit ✗ → runtime …"},
		"the condition says that nothing was checked": {func(c *cluster) {
			c.addNode(node)
			c.alone(facts.ContainerToolkit)
			c.unready(node, cause.Starting)
			c.fails(facts.ContainerToolkit, node, cause.ImagePullBackOff)
		}, "PCI → driver ✗ → device nodes …"},
		"no label of a GPU": {func(c *cluster) {
			c.addNode(node)
			c.alone(facts.DriverLoader)
			c.node(node).Labels = nil
			c.fails(facts.DriverLoader, node, cause.ImagePullBackOff)
		}, "PCI ✗ → driver …"},
		"GPUs can be used": {func(c *cluster) { c.addNode(node) }, "PCI → driver → device nodes → toolkit → runtime → CDI → plugin → kubelet → allocatable → scheduler → container ? → CUDA ?"},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy()
			tc.change(c)
			if got := text(doctor.Diagnose(c.Facts, onNode())); !strings.Contains(got, "\n"+tc.want) {
				t.Errorf("want %s, got:\n%s", tc.want, got)
			}
		})
	}
}

// alone makes the node one whose agents are not known, except for some, and that offers nothing.
func (c *cluster) alone(known ...string) {
	n := c.node(node)
	n.Status.Conditions[1].Status, n.Status.Capacity, n.Status.Allocatable = "", nil, nil
	c.DaemonSets = nil
	for _, a := range agents() {
		if !strings.Contains(strings.Join(known, " "), a) {
			c.remove(a, node)
		}
	}
}
