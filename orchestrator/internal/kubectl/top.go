package kubectl

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/view"
	"outrigger.dev/pkg/cmdline"
)

func (s *settings) topCommand() *cli.Command {
	var watch bool
	return &cli.Command{
		Name: "top", ArgsUsage: "[NODE]", Usage: "show the GPUs of all nodes, or each GPU of one node: model, MIG layout, health, pods and use",
		Flags: []cli.Flag{watchFlag(&watch)},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return cmdline.Usagef("unexpected argument %q: name one node, or none", c.Args().Get(1))
			}
			client, err := s.open()
			if err != nil {
				return err
			}
			node := c.Args().First()
			return s.show(c, watch, func(ctx context.Context, progress func(string)) (any, func(table.Out) error, error) {
				top, err := readTop(ctx, client, node, progress)
				if err != nil || node == "" {
					return top, top.Write, err
				}
				return top, top.WriteNode, nil
			})
		},
	}
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
	if node != "" && len(top.Nodes) == 0 && len(f.Unseen) == 0 {
		return top, fmt.Errorf("the node %s has no label of a GPU: kubectl outrigger doctor %s says why", node, node)
	}
	return top, nil
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
