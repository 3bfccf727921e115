// Package plan derives the layout of a cluster: its nodes, their roles, and all addresses.
// It is pure, so the layout of a running cluster can be derived again from its shape.
package plan

import (
	"errors"
	"fmt"
	"net/netip"
)

// maxNodes is the maximum number of nodes that the node network and the pod network can address.
const maxNodes = 250

// Shape is the part of a cluster that the user selects.
type Shape struct {
	// Nodes is the number of all nodes. The first node is both the control plane and a worker.
	Nodes int `json:"nodes"`
	// GPUNodes is the number of nodes with simulated GPUs, which are the last nodes.
	GPUNodes int `json:"gpuNodes"`
	// GPUs is the number of GPUs of each GPU node, and Model is their model.
	GPUs  int    `json:"gpus"`
	Model string `json:"model"`
	// Bare says that the GPU nodes have no driver, and a simulated kernel that loads modules.
	Bare bool `json:"bare,omitempty"`
	// Kwok says that the only node runs the control plane and kwok, and no pods. It has no Node
	// object. kwok plays the kubelets of the Nodes that the user creates.
	Kwok bool `json:"kwok,omitempty"`
	// CRIONodes is the number of nodes whose container engine is CRI-O. They are the last nodes.
	// The other nodes run containerd.
	CRIONodes int `json:"crioNodes"`
}

// Engine is the container engine of a node.
type Engine string

// The container engines.
const (
	Containerd Engine = "containerd"
	CRIO       Engine = "crio"
)

// Socket returns the path of the engine's socket for the kubelet.
func (e Engine) Socket() string {
	if e == CRIO {
		return "/var/run/crio/crio.sock"
	}
	return "/run/containerd/containerd.sock"
}

// Validate reports everything that is wrong with the shape.
func (s Shape) Validate() error {
	var errs []error
	if s.Nodes < 1 || s.Nodes > maxNodes {
		errs = append(errs, fmt.Errorf("nodes %d: want 1 to %d", s.Nodes, maxNodes))
	}
	if s.Kwok && (s.Nodes != 1 || s.GPUNodes != 0 || s.CRIONodes != 0) {
		errs = append(errs, fmt.Errorf("nodes %d, gpu nodes %d, cri-o nodes %d: want 1, 0 and 0 with kwok, which plays the other nodes", s.Nodes, s.GPUNodes, s.CRIONodes))
	}
	if s.GPUNodes < 0 || s.GPUNodes > s.Nodes {
		errs = append(errs, fmt.Errorf("gpu nodes %d: want 0 to the number of nodes, %d", s.GPUNodes, s.Nodes))
	}
	if s.GPUNodes > 0 && s.GPUs < 1 {
		errs = append(errs, fmt.Errorf("gpus %d: want at least 1 on a GPU node", s.GPUs))
	}
	if s.CRIONodes < 0 || s.CRIONodes > s.Nodes {
		errs = append(errs, fmt.Errorf("cri-o nodes %d: want 0 to the number of nodes, %d", s.CRIONodes, s.Nodes))
	}
	return errors.Join(errs...)
}

// Node is one node of the cluster.
type Node struct {
	Name         string
	ControlPlane bool
	Engine       Engine
	// GPUs is zero on a node without GPUs.
	GPUs    int
	Model   string
	IP      netip.Addr
	PodCIDR netip.Prefix
}

// Plan is the layout of a cluster.
type Plan struct {
	// Shape is the input of the plan.
	Shape Shape
	Nodes []Node
	// HostIP is the address of the machine on the nodes' network NodeCIDR.
	HostIP      netip.Addr
	NodeCIDR    netip.Prefix
	PodCIDR     netip.Prefix
	ServiceCIDR netip.Prefix
	// APIServiceIP is the service address of the API server inside the cluster.
	APIServiceIP netip.Addr
}

// New returns the plan of a cluster with the given shape, which must be valid.
func New(s Shape) Plan {
	p := Plan{
		Shape:        s,
		HostIP:       netip.AddrFrom4([4]byte{10, 99, 0, 1}),
		NodeCIDR:     netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, 0, 0}), 24),
		PodCIDR:      netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 0, 0}), 16),
		ServiceCIDR:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, 0, 0}), 16),
		APIServiceIP: netip.AddrFrom4([4]byte{10, 96, 0, 1}),
	}
	for i := range s.Nodes {
		n := Node{
			Name:         fmt.Sprintf("node%d", i),
			ControlPlane: i == 0,
			Engine:       Containerd,
			IP:           netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 2)}),
			PodCIDR:      netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24),
		}
		if i >= s.Nodes-s.GPUNodes {
			n.GPUs, n.Model = s.GPUs, s.Model
		}
		if i >= s.Nodes-s.CRIONodes {
			n.Engine = CRIO
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

// ControlPlane returns the node that runs the control plane.
func (p Plan) ControlPlane() Node { return p.Nodes[0] }

// APIServer returns the URL of the API server for nodes and for the machine.
func (p Plan) APIServer() string {
	return fmt.Sprintf("https://%s:6443", p.ControlPlane().IP)
}

// Node returns the node with that name.
func (p Plan) Node(name string) (Node, error) {
	for _, n := range p.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return Node{}, fmt.Errorf("node %s: not in the cluster, which has %s to %s", name, p.Nodes[0].Name, p.Nodes[len(p.Nodes)-1].Name)
}
