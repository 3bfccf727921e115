package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/cluster/internal/plan"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		shape plan.Shape
		want  string
	}{
		"one plain node is valid":              {shape: plan.Shape{Nodes: 1}},
		"all nodes may have GPUs":              {shape: plan.Shape{Nodes: 2, GPUNodes: 2, GPUs: 8}},
		"a cluster has a node":                 {shape: plan.Shape{}, want: "nodes 0: want 1 to 250"},
		"the addresses end at 250 nodes":       {shape: plan.Shape{Nodes: 251}, want: "nodes 251: want 1 to 250"},
		"GPU nodes are nodes of the cluster":   {shape: plan.Shape{Nodes: 1, GPUNodes: 2, GPUs: 1}, want: "gpu nodes 2: want 0 to the number of nodes, 1"},
		"a GPU node has a GPU":                 {shape: plan.Shape{Nodes: 1, GPUNodes: 1}, want: "gpus 0: want at least 1 on a GPU node"},
		"kwok plays all nodes":                 {shape: plan.Shape{Nodes: 1, Kwok: true}},
		"kwok has no nodes beside it":          {shape: plan.Shape{Nodes: 2, Kwok: true}, want: "nodes 2, gpu nodes 0, cri-o nodes 0: want 1, 0 and 0 with kwok, which plays the other nodes"},
		"CRI-O nodes are nodes of the cluster": {shape: plan.Shape{Nodes: 1, CRIONodes: 2}, want: "cri-o nodes 2: want 0 to the number of nodes, 1"},
		"everything wrong is reported at once": {shape: plan.Shape{GPUNodes: 1}, want: "nodes 0: want 1 to 250\ngpu nodes 1: want 0 to the number of nodes, 0\ngpus 0: want at least 1 on a GPU node"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.shape.Validate(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Validate() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewPlacesNodes(t *testing.T) {
	type node struct {
		Name, IP, PodCIDR string
		ControlPlane      bool
		Engine            plan.Engine
		GPUs              int
	}
	for name, test := range map[string]struct {
		shape plan.Shape
		want  []node
	}{
		"the first node is the control plane": {
			shape: plan.Shape{Nodes: 2},
			want: []node{
				{"node0", "10.99.0.2", "10.244.0.0/24", true, plan.Containerd, 0},
				{"node1", "10.99.0.3", "10.244.1.0/24", false, plan.Containerd, 0},
			},
		},
		"the last nodes have the GPUs, and CRI-O": {
			shape: plan.Shape{Nodes: 3, GPUNodes: 2, GPUs: 4, CRIONodes: 1},
			want: []node{
				{"node0", "10.99.0.2", "10.244.0.0/24", true, plan.Containerd, 0},
				{"node1", "10.99.0.3", "10.244.1.0/24", false, plan.Containerd, 4},
				{"node2", "10.99.0.4", "10.244.2.0/24", false, plan.CRIO, 4},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []node
			for _, n := range plan.New(test.shape).Nodes {
				got = append(got, node{n.Name, n.IP.String(), n.PodCIDR.String(), n.ControlPlane, n.Engine, n.GPUs})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("New() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewKeepsNetworksApart(t *testing.T) {
	p := plan.New(plan.Shape{Nodes: 250})
	seen := map[string]bool{p.HostIP.String(): true}
	for _, n := range p.Nodes {
		if seen[n.IP.String()] || seen[n.PodCIDR.String()] {
			t.Errorf("%s shares %s or %s", n.Name, n.IP, n.PodCIDR)
		}
		seen[n.IP.String()], seen[n.PodCIDR.String()] = true, true
		if !p.NodeCIDR.Contains(n.IP) || !p.PodCIDR.Contains(n.PodCIDR.Addr()) {
			t.Errorf("%s is outside its networks: %s, %s", n.Name, n.IP, n.PodCIDR)
		}
	}
	if !p.ServiceCIDR.Contains(p.APIServiceIP) {
		t.Errorf("service address %s is outside %s", p.APIServiceIP, p.ServiceCIDR)
	}
	if p.NodeCIDR.Overlaps(p.PodCIDR) || p.PodCIDR.Overlaps(p.ServiceCIDR) || p.NodeCIDR.Overlaps(p.ServiceCIDR) {
		t.Errorf("networks overlap: %s, %s, %s", p.NodeCIDR, p.PodCIDR, p.ServiceCIDR)
	}
}

func TestNodeNamesWhatThereIs(t *testing.T) {
	p := plan.New(plan.Shape{Nodes: 2})
	if n, err := p.Node("node1"); err != nil || n.Name != "node1" {
		t.Errorf("Node(node1) = %v, %v", n, err)
	}
	_, err := p.Node("node2")
	if want := "node node2: not in the cluster, which has node0 to node1"; err == nil || err.Error() != want {
		t.Errorf("Node(node2) = %v, want %s", err, want)
	}
}
