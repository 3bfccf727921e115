package app

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// gpuHelp explains the argument GPU.
const gpuHelp = "GPU is an NVML index (0), a UUID (GPU-…), a PCI bus id (0000:07:00.0) or the name of its device node (nvidia0)."

// gpuCommand returns a command for one GPU. Its first argument names the GPU.
func gpuCommand(cmd command, run func(c *cli.Context, n *node.Node, g state.GPU) error) *cli.Command {
	cmd.description = gpuHelp
	cmd.min = max(cmd.min, 1)
	cmd.max = cmd.min
	cmd.run = func(c *cli.Context, n *node.Node) error {
		g, err := gpuAt(n, c.Args().First())
		if err != nil {
			return fmt.Errorf("%s: %w", cmd.fullName(), err)
		}
		return run(c, n, g)
	}
	return cmd.cli()
}

func xidCommand() *cli.Command {
	var instance string
	cmd := command{
		name: "xid", args: "GPU CODE", usage: "raise an XID on a GPU", min: 2,
		flags: []cli.Flag{&cli.StringFlag{Name: "instance", Destination: &instance, Usage: "`GI[/CI]` to which the XID belongs (default: the whole GPU)"}},
	}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		code, err := strconv.ParseUint(c.Args().Get(1), 10, 32)
		if err != nil || code == 0 {
			return fmt.Errorf("xid: code %q: want a number such as 79", c.Args().Get(1))
		}
		gi, ci, err := instanceOf(instance)
		if err != nil {
			return fmt.Errorf("xid: %w", err)
		}
		if err := n.State().PostXID(g.Slot, code, gi, ci); err != nil {
			return err
		}
		return printGPU(c, fmt.Sprintf("XID %d on", code), g)
	})
}

func loseCommand() *cli.Command {
	var how string
	cmd := command{
		name: "lose", args: "GPU", usage: "take a GPU off the bus: XID 79, and the GPU no longer answers",
		flags: []cli.Flag{&cli.StringFlag{
			Name: "how", Value: string(state.LostHandle), Destination: &how,
			Usage: "what fails: \"handle\" (NVML returns no handle) or \"calls\" (calls with a handle fail)",
		}},
	}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		if err := n.State().Lose(g.Slot, state.Lost(how)); err != nil {
			return err
		}
		return printGPU(c, "lost", g)
	})
}

func healCommand() *cli.Command {
	cmd := command{name: "heal", args: "GPU", usage: "recover a lost GPU"}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		if err := n.State().Heal(g.Slot); err != nil {
			return err
		}
		return printGPU(c, "healed", g)
	})
}

func plugCommand() *cli.Command {
	var gpu state.GPUSpec
	return command{
		name: "plug", usage: "add a GPU in the lowest free slot",
		flags: []cli.Flag{
			modelFlag(&gpu.Model, "product or FILE, as for create (default: the model of the node)", ""),
			&cli.StringFlag{Name: "uuid", Destination: &gpu.UUID, Usage: "`UUID` of the GPU (default: derived from the node's name)"},
		},
		run: func(c *cli.Context, n *node.Node) error {
			g, err := n.Plug(gpu)
			if err != nil {
				return err
			}
			return printGPU(c, "plugged", g)
		},
	}.cli()
}

func unplugCommand() *cli.Command {
	return command{
		name: "unplug", args: "GPU", usage: "remove a GPU from the machine", description: gpuHelp, min: 1, max: 1,
		run: func(c *cli.Context, n *node.Node) error {
			g, err := n.Unplug(c.Args().First())
			if err != nil {
				return fmt.Errorf("unplug: %w", err)
			}
			return printGPU(c, "unplugged", g)
		},
	}.cli()
}
