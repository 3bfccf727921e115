package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/test/cluster/cluster"
)

func upCommand() *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "start a cluster and wait until its nodes are ready",
		Flags: []cli.Flag{
			// The zero value of cluster.Config stands for the defaults.
			cmdline.Check(&cli.IntFlag{Name: "nodes", Value: 1, EnvVars: []string{"NODES"}, Usage: "number of all nodes; the first one is both the control plane and a worker"},
				"at least 1", func(n int) bool { return n >= 1 }),
			&cli.IntFlag{Name: "gpu-nodes", EnvVars: []string{"GPU_NODES"}, Usage: "number of nodes with simulated GPUs, which are the last ones"},
			&cli.IntFlag{Name: "gpus", Value: 8, EnvVars: []string{"GPUS"}, Usage: "number of GPUs of each GPU node"},
			&cli.StringFlag{Name: "model", Value: "a100-40", EnvVars: []string{"MODEL"}, Usage: "gpu-sim's name of the GPU model"},
			&cli.BoolFlag{Name: "bare", EnvVars: []string{"BARE"}, Usage: "GPU nodes come without a driver, and with a simulated kernel that loads modules"},
			&cli.BoolFlag{Name: "kwok", EnvVars: []string{"KWOK"}, Usage: "start only the control plane, and kwok, which plays the kubelets of Nodes that you create with the annotation kwok.x-k8s.io/node=fake"},
			&cli.IntFlag{Name: "crio-nodes", EnvVars: []string{"CRIO_NODES"}, Usage: "number of nodes with CRI-O instead of containerd, which are the last ones"},
			&cli.StringFlag{Name: "bin-dir", EnvVars: []string{"BIN_DIR"}, Usage: "folder with gpu-sim and cluster-components (default: the folder of this program)"},
		},
		Action: func(c *cli.Context) error {
			bin := c.String("bin-dir")
			if bin == "" {
				var err error
				if bin, err = ownFolder(); err != nil {
					return err
				}
			}
			bin, err := filepath.Abs(bin)
			if err != nil {
				return fmt.Errorf("find folder of programs: %w", err)
			}
			_, err = cluster.Up(c.Context, cluster.Config{
				Nodes:     c.Int("nodes"),
				GPUNodes:  c.Int("gpu-nodes"),
				GPUs:      c.Int("gpus"),
				Model:     c.String("model"),
				CRIONodes: c.Int("crio-nodes"),
				Bare:      c.Bool("bare"),
				Kwok:      c.Bool("kwok"),
				BinDir:    bin,
				Progress:  c.App.Writer,
			})
			return err
		},
	}
}

func downCommand() *cli.Command {
	return &cli.Command{
		Name:   "down",
		Usage:  "remove the cluster and everything that belongs to it, whatever its state",
		Action: func(c *cli.Context) error { return cluster.Down(c.Context, c.App.Writer) },
	}
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "print the nodes and their components; fail if one is not healthy",
		Action: func(c *cli.Context) error {
			k, err := cluster.Open()
			if err != nil {
				return err
			}
			nodes, err := k.Status(c.Context)
			if err != nil {
				return err
			}
			return printStatus(c, nodes)
		},
	}
}

// printStatus prints one line per component. Its error joins all problems.
func printStatus(c *cli.Context, nodes []cluster.NodeStatus) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NODE\tADDRESS\tGPUS\tCOMPONENT\tSTATE\tENDED\tMEMORY")
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Down, n.NotReady)
		for _, s := range n.Components {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%d MiB\n", n.Name, n.IP, n.GPUs, s.Name, s.State, s.Ends, s.RSS>>20)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return errors.Join(errs...)
}
