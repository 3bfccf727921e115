package cluster

import (
	"context"

	"outrigger.dev/test/cluster/internal/kubeapi"
	"outrigger.dev/test/cluster/internal/nodeinit"
)

// ComponentStatus is the status of one component of a node.
type ComponentStatus = nodeinit.Status

// NodeStatus is the status of a node.
type NodeStatus struct {
	Name string
	IP   string
	GPUs int
	// NotReady is the reason why the Node object is not ready. It is nil if the Node is ready or
	// the cluster runs kwok.
	NotReady error
	// Down is set if the node's first process has ended, which ends the whole node.
	Down       error
	Components []ComponentStatus
}

// Status returns the status of all nodes.
func (c *Cluster) Status(ctx context.Context) ([]NodeStatus, error) {
	api, err := kubeapi.New(c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	var all []NodeStatus
	for _, n := range c.plan.Nodes {
		s := NodeStatus{Name: n.Name, IP: n.IP.String(), GPUs: n.GPUs}
		if !c.plan.Shape.Kwok {
			s.NotReady = api.NodeReady(ctx, n.Name)
		}
		s.Components, s.Down = c.client(n).Status(ctx)
		all = append(all, s)
	}
	return all, nil
}
