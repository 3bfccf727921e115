package kubectl

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/view"
	"outrigger.dev/pkg/cmdline"
)

func (s *settings) topCommand() *cli.Command {
	var watch bool
	var offline string
	return &cli.Command{
		Name: "top", ArgsUsage: "[NODE]", Usage: "show the GPUs of all nodes, or each GPU of one node: model, MIG layout, health, pods and use",
		Flags: []cli.Flag{watchFlag(&watch), offlineFlag(&offline)},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return cmdline.Usagef("unexpected argument %q: name one node, or none", c.Args().Get(1))
			}
			node := c.Args().First()
			load, err := s.topOf(offline, node)
			if err != nil {
				return err
			}
			return s.show(c, watch, func(ctx context.Context, progress func(string)) (any, func(table.Out) error, error) {
				top, err := load(ctx, progress)
				if err != nil || node == "" {
					return top, top.Write, err
				}
				return top, top.WriteNode, nil
			})
		},
	}
}

// topOf returns the function that reads the GPUs: from an archive, or from the cluster.
func (s *settings) topOf(offline, node string) (func(context.Context, func(string)) (view.Top, error), error) {
	if offline != "" {
		return func(context.Context, func(string)) (view.Top, error) { return archivedTop(offline, node) }, nil
	}
	client, err := s.open()
	return func(ctx context.Context, progress func(string)) (view.Top, error) {
		return readTop(ctx, client, node, progress)
	}, err
}

// archivedTop returns the GPUs at the time of an archive.
func archivedTop(name, node string) (view.Top, error) {
	f, err := archive.Read(name)
	if err != nil {
		return view.Top{}, err
	}
	if node != "" {
		f.Nodes = slices.DeleteFunc(f.Nodes, func(n *corev1.Node) bool { return n.Name != node })
	}
	top := view.NewTop(f, nil, "the archive has no metrics")
	return top, withoutGPUs(top, node)
}

// withoutGPUs returns an error if a node is named, and is not among the nodes with GPUs.
func withoutGPUs(top view.Top, node string) error {
	if node == "" || len(top.Nodes) > 0 {
		return nil
	}
	return fmt.Errorf("the node %s has no label of a GPU: kubectl outrigger doctor %s says why", node, node)
}

func readTop(ctx context.Context, client *cluster.Client, node string, progress func(string)) (view.Top, error) {
	f, err := read.Top(ctx, read.Config{Client: client, Target: facts.Target{Node: node}, Progress: progress})
	if err != nil {
		return view.Top{}, err
	}
	progress("asks the exporters")
	metrics, why := read.Use(ctx, client, f.Pods)
	devices := map[string][]view.Device{}
	for name, text := range metrics {
		if devices[name], err = view.Devices(text); err != nil {
			why = fmt.Sprintf("the exporter on the node %s: %v", name, err)
		}
	}
	if node != "" && devices[node] == nil {
		devices[node] = snapshot(ctx, client, f.Pods)
	}
	top := view.NewTop(f, devices, why)
	return top, withoutGPUs(top, node)
}

// snapshot returns the devices that an agent on the node of pods lists, or nil if no agent answers.
func snapshot(ctx context.Context, client *cluster.Client, pods []*corev1.Pod) []view.Device {
	for _, p := range pods {
		agent := facts.Agent(p.Labels)
		if agent != facts.DevicePlugin && agent != facts.Exporter {
			continue
		}
		output, err := read.Ask(ctx, client, read.Question{Namespace: p.Namespace, Pod: p.Name, Container: agent, Command: []string{"/usr/bin/" + agent, "snapshot"}})
		if err != nil {
			continue
		}
		if devices, err := view.Snapshot(output); err == nil {
			return devices
		}
	}
	return nil
}
