package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"outrigger.dev/test/cluster/internal/machine"
	"outrigger.dev/test/cluster/internal/nodeinit"
	"outrigger.dev/test/cluster/internal/plan"
	"outrigger.dev/test/cluster/internal/render"
)

// componentFolder is the folder in BinDir with the programs that nodes run.
const componentFolder = "cluster-components"

// Cluster is a running cluster.
type Cluster struct {
	plan     plan.Plan
	binDir   string
	progress progress
	// archives are the image archives that every node imports when the cluster starts.
	archives []string
}

// Open returns the running cluster of this machine.
func Open() (*Cluster, error) {
	state, err := machine.Load()
	if err != nil {
		return nil, fmt.Errorf("open cluster: %w: start one with cluster up", err)
	}
	return newCluster(state, io.Discard), nil
}

func newCluster(s machine.State, w io.Writer) *Cluster {
	return &Cluster{plan: plan.New(s.Shape), binDir: s.BinDir, progress: newProgress(w)}
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return machine.Kubeconfig() }

// Nodes returns the names of the nodes, the control plane first.
func (c *Cluster) Nodes() []string {
	var names []string
	for _, n := range c.plan.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// GPUNodes returns the names of the nodes with simulated GPUs.
func (c *Cluster) GPUNodes() []string {
	var names []string
	for _, n := range c.plan.Nodes {
		if n.GPUs > 0 {
			names = append(names, n.Name)
		}
	}
	return names
}

// GPUSim returns the folder of a node's simulated GPUs, for gpu-sim --root.
func (c *Cluster) GPUSim(node string) (string, error) {
	n, err := c.plan.Node(node)
	if err != nil {
		return "", err
	}
	if n.GPUs == 0 {
		return "", fmt.Errorf("find simulated GPUs: node %s has none: use one of the GPU nodes %v", node, c.GPUNodes())
	}
	return gpuSimDir(node), nil
}

func gpuSimDir(node string) string { return filepath.Join(machine.NodeDir(node), "gpu-sim") }

// AuditLog returns the path of the API server's audit log: the requests of service
// accounts, without request and response bodies, as JSON lines of audit.k8s.io/v1.
func (c *Cluster) AuditLog() string { return c.spec(c.plan.ControlPlane()).Log(render.Audit) }

// Log returns the path of the log of a node's component. The component "init" is the node's first
// process.
func (c *Cluster) Log(node, component string) (string, error) {
	n, err := c.plan.Node(node)
	if err != nil {
		return "", err
	}
	return c.spec(n).Log(component), nil
}

// Restart stops and starts a component on the given nodes, or on every node that has it if no nodes
// are given. It returns when the new processes have started.
func (c *Cluster) Restart(ctx context.Context, component string, nodes ...string) error {
	return c.each(component, nodes, func(client *nodeinit.Client) error { return client.Restart(ctx, component) })
}

// Stop stops a component until Start is called, on the given nodes, or on every node that has it.
func (c *Cluster) Stop(ctx context.Context, component string, nodes ...string) error {
	return c.each(component, nodes, func(client *nodeinit.Client) error { return client.Stop(ctx, component) })
}

// Start starts a stopped component, on the given nodes, or on every node that has it.
func (c *Cluster) Start(ctx context.Context, component string, nodes ...string) error {
	return c.each(component, nodes, func(client *nodeinit.Client) error { return client.Start(ctx, component) })
}

// each calls the function do for every selected node that has the component.
func (c *Cluster) each(component string, nodes []string, do func(*nodeinit.Client) error) error {
	found := false
	for _, n := range c.plan.Nodes {
		if !selected(n.Name, nodes) || !c.has(n, component) {
			continue
		}
		found = true
		if err := do(c.client(n)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("find component %s: not on the selected nodes: cluster status lists all components", component)
	}
	return nil
}

// selected reports whether a node is selected. No selection selects all nodes.
func selected(node string, nodes []string) bool {
	return len(nodes) == 0 || slices.Contains(nodes, node)
}

func (c *Cluster) has(n plan.Node, component string) bool {
	for _, other := range c.spec(n).Components {
		if other.Name == component {
			return true
		}
	}
	return false
}

func (c *Cluster) client(n plan.Node) *nodeinit.Client { return nodeinit.NewClient(c.spec(n)) }

// spec returns the spec of the node's first process.
func (c *Cluster) spec(n plan.Node) nodeinit.Spec {
	s := nodeinit.Spec{
		Name:       n.Name,
		Dir:        machine.NodeDir(n.Name),
		BinDir:     c.binDir,
		Cgroup:     machine.Cgroup,
		Components: render.Components(c.plan, n, c.options(n)),
	}
	if n.GPUs > 0 {
		s.GPUSim, s.Bare = gpuSimDir(n.Name), c.plan.Shape.Bare
	}
	return s
}
