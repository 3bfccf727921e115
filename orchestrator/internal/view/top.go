package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/cause"
)

// Top is the use of the GPUs of a cluster.
type Top struct {
	Nodes []GPUNode `json:"nodes"`
	// NoUse is why the use of the GPUs of some nodes is not known, or "".
	NoUse  string         `json:"noUse,omitempty"`
	Unseen []facts.Unseen `json:"unseen,omitempty"`
}

// GPUNode is a node with GPUs.
type GPUNode struct {
	Node  string `json:"node"`
	Model string `json:"model,omitempty"`
	GPUs  int64  `json:"gpus"`
	// MIG is the layout, such as "7×1g.5gb", with the state of a change that has not ended.
	MIG string `json:"mig,omitempty"`
	// Offered is the number of devices that the kubelet offers, and Capacity the number that device plugins have
	// registered.
	Offered  int64 `json:"offered"`
	Capacity int64 `json:"capacity"`
	// State is Ready, OptedOut, NoDevices or a code of the table of causes.
	State    string         `json:"state"`
	Severity cause.Severity `json:"severity,omitempty"`
	Message  string         `json:"message,omitempty"`
	// Cordoned says that the node takes no new pods.
	Cordoned bool `json:"cordoned,omitempty"`
	// Requested is the number of devices that Pods request.
	Requested int64    `json:"requested"`
	Pods      []GPUPod `json:"pods,omitempty"`
	// Devices are the GPUs and MIG devices, if an agent has listed them.
	Devices []Device `json:"devices,omitempty"`
}

// GPUPod is a pod that requests GPUs and has not ended.
type GPUPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Requests has the numbers of devices by resource.
	Requests map[string]int64 `json:"requests"`
}

// NewTop returns the use of the GPUs. devices has the devices of nodes whose exporter has answered, and noUse why others
// have not. Nodes with a cause come first.
func NewTop(f facts.Facts, devices map[string][]Device, noUse string) Top {
	pods := podsByNode(f.Pods)
	top := Top{Nodes: []GPUNode{}, NoUse: noUse, Unseen: f.Unseen}
	for _, node := range f.Nodes {
		n := observe.NodeOf(node)
		if !n.HasGPU() {
			continue
		}
		row := gpuNode(n)
		row.Cordoned, row.Pods, row.Devices = node.Spec.Unschedulable, pods[n.Name], devices[n.Name]
		for _, p := range row.Pods {
			for _, count := range p.Requests {
				row.Requested += count
			}
		}
		top.Nodes = append(top.Nodes, row)
	}
	slices.SortFunc(top.Nodes, func(a, b GPUNode) int {
		return cmp.Or(severityWeight(b.Severity)-severityWeight(a.Severity), cmp.Compare(a.Node, b.Node))
	})
	return top
}

func gpuNode(n *model.Node) GPUNode {
	row := GPUNode{Node: n.Name, MIG: layout(n)}
	row.Model, _, _ = strings.Cut(n.Labels["nvidia.com/gpu.product"], "-MIG-")
	row.Model = strings.ReplaceAll(strings.TrimSuffix(row.Model, "-SHARED"), "-", " ")
	row.State, row.Severity, row.Message = stateOf(n)
	row.Offered, row.Capacity = n.GPUs()
	row.GPUs = n.Capacity["nvidia.com/gpu"]
	if count, err := strconv.ParseInt(n.Labels["nvidia.com/gpu.count"], 10, 64); err == nil {
		row.GPUs = count
	}
	return row
}

// layout returns the MIG devices that a node offers, or "".
func layout(n *model.Node) string {
	const prefix = "nvidia.com/mig-"
	var parts []string
	for name, count := range n.Capacity {
		if profile, is := strings.CutPrefix(name, prefix); is && count > 0 {
			parts = append(parts, fmt.Sprintf("%d×%s", count, profile))
		}
	}
	slices.SortFunc(parts, func(a, b string) int { // larger profiles last
		_, a, _ = strings.Cut(a, "×")
		_, b, _ = strings.Cut(b, "×")
		return cmp.Compare(a, b)
	})
	if _, profile, single := strings.Cut(n.Labels["nvidia.com/gpu.product"], "-MIG-"); single {
		parts = []string{fmt.Sprintf("%d×%s", n.Capacity["nvidia.com/gpu"], strings.TrimSuffix(profile, "-SHARED"))}
	}
	if state := n.Labels["nvidia.com/mig.config.state"]; state != "" && state != "success" {
		parts = append(parts, "("+state+")")
	}
	return strings.Join(parts, " ")
}

// podsByNode returns the pods that request GPUs by their node.
func podsByNode(all []*corev1.Pod) map[string][]GPUPod {
	found := map[string][]GPUPod{}
	for _, p := range all {
		requests := facts.Requests(p)
		if len(requests) == 0 || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		found[p.Spec.NodeName] = append(found[p.Spec.NodeName], GPUPod{Namespace: p.Namespace, Name: p.Name, Phase: string(p.Status.Phase), Requests: requests})
	}
	for _, pods := range found {
		slices.SortFunc(pods, func(a, b GPUPod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return found
}
