package ready

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"outrigger.dev/pkg/cause"
)

// Node is the part of the Node object that links depend on.
type Node struct {
	Labels map[string]string
	// Offered is the number of devices nvidia.com/* that containers can use. Registered is the
	// number of devices that device plugins have registered with the kubelet, even if unhealthy.
	Offered, Registered int64
}

// UnmarshalJSON decodes a Node of the core API.
func (n *Node) UnmarshalJSON(data []byte) error {
	var w struct {
		Metadata struct{ Labels map[string]string }
		Status   struct{ Allocatable, Capacity map[string]string }
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*n = Node{Labels: w.Metadata.Labels, Offered: devices(w.Status.Allocatable), Registered: devices(w.Status.Capacity)}
	return nil
}

// devices returns the number of devices in a list of resources.
func devices(resources map[string]string) (sum int64) {
	for name, quantity := range resources {
		// The API server writes 2000 as 2k.
		text, thousands := strings.CutSuffix(quantity, "k")
		count, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !strings.HasPrefix(name, "nvidia.com/") {
			continue
		}
		if thousands {
			count *= 1000
		}
		sum += count
	}
	return sum
}

// excludesAgent reports whether labels of the Node keep an agent off the node, so that its facts
// are not written. NVIDIA's GPU Operator defines these labels, and the affinity of the charts
// uses them.
func (n *Node) excludesAgent(agent string) bool {
	const deploy = "nvidia.com/gpu.deploy."
	return n != nil && (n.Labels[deploy+agent] == "false" || n.Labels[deploy+"operands"] == "false")
}

// offers returns why the kubelet offers no device, although the device plugin has registered its
// devices. The kubelet writes registered devices to the Node within 10 s.
func (n *Node) offers() finding {
	switch {
	case n == nil || n.Offered > 0:
		return finding{}
	case n.Registered == 0:
		return fails(cause.PluginNotReady, "the device plugin runs, and the kubelet does not offer its devices yet").withFix("nothing, unless this lasts: then see the log of the kubelet of this node")
	}
	return fails(cause.PluginNotReady, fmt.Sprintf("the kubelet offers 0 of %d devices: the device plugin has just ended, or reports them as unhealthy", n.Registered)).withFix(
		"check the pod of the device plugin on this node, and the Events DeviceUnhealthy of this node")
}
