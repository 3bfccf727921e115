package cluster

import (
	"context"

	"outrigger.dev/test/cluster/internal/kubeapi"
	"outrigger.dev/test/cluster/internal/nodeinit"
)

// ComponentStatus is what one component of a node is doing.
type ComponentStatus = nodeinit.Status

// NodeStatus is what a node is doing.
type NodeStatus struct {
	Name string
	IP   string
	GPUs int
	// NotReady says why Kubernetes does not use the node; nil if it does.
	NotReady error
	// Down says that the node's first process is gone, and all else with it.
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
		s := NodeStatus{Name: n.Name, IP: n.IP.String(), GPUs: n.GPUs, NotReady: api.NodeReady(ctx, n.Name)}
		s.Components, s.Down = c.client(n).Status(ctx)
		all = append(all, s)
	}
	return all, nil
}
