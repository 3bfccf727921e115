package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/test/cluster/cluster"
)

func kubectlCommand() *cli.Command {
	return &cli.Command{
		Name:            "kubectl",
		Usage:           "run kubectl as the cluster's administrator",
		ArgsUsage:       "ARGUMENT...",
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			k, err := cluster.Open()
			if err != nil {
				return err
			}
			cmd := k.KubectlCommand(c.Context, c.Args().Slice()...)
			return become(cmd, os.Environ())
		},
	}
}

func execCommand() *cli.Command {
	return &cli.Command{
		Name:            "exec",
		Usage:           "run a command on a node",
		ArgsUsage:       "NODE -- COMMAND [ARGUMENT...]",
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) < 3 || args[1] != "--" {
				return errors.New("run command on node: want NODE -- COMMAND [ARGUMENT...]")
			}
			k, err := cluster.Open()
			if err != nil {
				return err
			}
			cmd, err := k.NodeCommand(c.Context, args[0], args[2:]...)
			if err != nil {
				return err
			}
			return become(cmd, cmd.Env)
		},
	}
}

// become replaces this process with the command, so that the command gets the terminal
// and signals, and its exit status is returned.
func become(cmd *exec.Cmd, env []string) error {
	if cmd.Err != nil {
		return fmt.Errorf("find program: %w", cmd.Err)
	}
	if err := syscall.Exec(cmd.Path, cmd.Args, env); err != nil {
		return fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return nil
}

func loadImageCommand() *cli.Command {
	return &cli.Command{
		Name:      "load-image",
		Usage:     "import image archives on all nodes, or on the given ones",
		ArgsUsage: "ARCHIVE...",
		Flags:     []cli.Flag{nodeFlag()},
		Action: func(c *cli.Context) error {
			archives, nodes, err := splitArgs(c)
			if err != nil {
				return err
			}
			if len(archives) == 0 {
				return errors.New("import images: want at least one archive")
			}
			k, err := cluster.Open()
			if err != nil {
				return err
			}
			for _, archive := range archives {
				if err := k.LoadImage(c.Context, archive, nodes...); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func restartCommand() *cli.Command {
	return componentCommand("restart", "restart a component", (*cluster.Cluster).Restart)
}

func stopCommand() *cli.Command {
	return componentCommand("stop", "stop a component until it is started", (*cluster.Cluster).Stop)
}

func startCommand() *cli.Command {
	return componentCommand("start", "start a stopped component", (*cluster.Cluster).Start)
}

// componentCommand returns a command that acts on one component.
func componentCommand(name, usage string, act func(*cluster.Cluster, context.Context, string, ...string) error) *cli.Command {
	return &cli.Command{
		Name:      name,
		Usage:     usage + ", on every node that has it, or on the given ones",
		ArgsUsage: "COMPONENT",
		Flags:     []cli.Flag{nodeFlag()},
		Action: func(c *cli.Context) error {
			components, nodes, err := splitArgs(c)
			if err != nil {
				return err
			}
			if len(components) != 1 {
				return fmt.Errorf("%s component: want one name, got %d", name, len(components))
			}
			k, err := cluster.Open()
			if err != nil {
				return err
			}
			return act(k, c.Context, components[0], nodes...)
		},
	}
}

func logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print the log of a component, or of the node's first process: init",
		ArgsUsage: "COMPONENT",
		Flags:     []cli.Flag{nodeFlag()},
		Action: func(c *cli.Context) error {
			components, nodes, err := splitArgs(c)
			if err != nil {
				return err
			}
			if len(components) != 1 || len(nodes) > 1 {
				return errors.New("print log: want one component, and at most one node")
			}
			k, err := cluster.Open()
			if err != nil {
				return err
			}
			// The default is the first node, because most components run only there.
			path, err := k.Log(append(nodes, k.Nodes()[0])[0], components[0])
			if err != nil {
				return err
			}
			f, err := os.Open(path)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no log of %s: cluster status lists the components of each node", components[0])
			}
			if err != nil {
				return fmt.Errorf("open log: %w", err)
			}
			defer func() { _ = f.Close() }()
			if _, err := io.Copy(c.App.Writer, f); err != nil {
				return fmt.Errorf("print log: %w", err)
			}
			return nil
		},
	}
}

// splitArgs returns the arguments of a command and the nodes of its flag. Unlike the
// library, it also accepts the flag after arguments.
func splitArgs(c *cli.Context) (args, nodes []string, err error) {
	nodes = c.StringSlice("node")
	for rest := c.Args().Slice(); len(rest) > 0; rest = rest[1:] {
		name, value, joined := strings.Cut(rest[0], "=")
		switch {
		case name != "--node" && name != "-node":
			args = append(args, rest[0])
		case joined:
			nodes = append(nodes, value)
		case len(rest) > 1:
			nodes = append(nodes, rest[1])
			rest = rest[1:]
		default:
			return nil, nil, fmt.Errorf("read flag %s: want the name of a node", name)
		}
	}
	return args, nodes, nil
}

func nodeFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "node", Usage: "a node; may be repeated"}
}
