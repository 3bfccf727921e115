package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// gpusHelp explains the argument GPU of commands that accept "all".
const gpusHelp = gpuHelp + "\n\"all\" stands for all GPUs that can be divided."

func migCommand() *cli.Command {
	return &cli.Command{
		Name: "mig", Usage: "partition GPUs: MIG mode and MIG instances",
		Subcommands: []*cli.Command{migModeCommand(), migCreateCommand(), migDestroyCommand(), migListCommand(), migProfilesCommand()},
	}
}

// gpusAt returns the GPUs that ref names. "all" names all GPUs that support MIG.
func gpusAt(n *node.Node, ref string) ([]state.GPU, error) {
	if ref != "all" {
		g, err := gpuAt(n, ref)
		return []state.GPU{g}, err
	}
	var gpus []state.GPU
	for _, g := range n.State().Show().GPUs {
		if g.MIG != nil {
			gpus = append(gpus, g)
		}
	}
	if len(gpus) == 0 {
		return nil, fmt.Errorf("GPU \"all\": %w: no GPU of the node supports MIG", state.ErrNoGPU)
	}
	return gpus, nil
}

// migCommandOn returns a command that runs on each GPU that its first argument names.
func migCommandOn(cmd command, run func(c *cli.Context, n *node.Node, g state.GPU) error) *cli.Command {
	cmd.parent, cmd.description = "mig", gpusHelp+cmd.description
	cmd.run = func(c *cli.Context, n *node.Node) error {
		gpus, err := gpusAt(n, c.Args().First())
		for i := 0; err == nil && i < len(gpus); i++ {
			err = run(c, n, gpus[i])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", cmd.fullName(), err)
		}
		return nil
	}
	return cmd.cli()
}

func migModeCommand() *cli.Command {
	cmd := command{name: "mode", args: "GPU on|off", usage: "set the MIG mode; off destroys all instances", min: 2, max: 2}
	return migCommandOn(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		on, err := parseSwitch("MIG mode", c.Args().Get(1))
		if err != nil {
			return err
		}
		activation, err := n.SetMIGMode(g, on)
		if err != nil {
			return err
		}
		what := "MIG mode " + c.Args().Get(1)
		switch activation {
		case state.ModePending:
			what += fmt.Sprintf(" is pending until a reset (gpu-sim reset %d):", g.Index)
		case state.ModePendingInUse:
			what += fmt.Sprintf(" is pending until a reset, and processes use the GPU (gpu-sim proc list %d):", g.Index)
		case state.ModeActive:
			what += ":"
		}
		return printGPU(c, withRoot(what, n.Root()), g)
	})
}

func migCreateCommand() *cli.Command {
	cmd := command{
		name: "create", args: "GPU PROFILE[@START]…", usage: "create MIG devices, all or none", min: 2, max: -1,
		description: "\nPROFILE is the profile of a MIG device: 3g.20gb gets its own GPU instance, 1c.3g.20gb is a part of one.\n" +
			"Consecutive parts share a GPU instance while they fit. START is the first memory slice of the GPU instance,\n" +
			"by default the highest that is free. \"gpu-sim mig profiles GPU\" lists the profiles.",
	}
	return migCommandOn(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		var requests []node.Request
		for _, arg := range c.Args().Tail() {
			r, err := node.ParseRequest(arg)
			if err != nil {
				return err
			}
			requests = append(requests, r)
		}
		made, err := n.CreateMIG(g, requests)
		for _, m := range made {
			if err == nil {
				_, err = fmt.Fprintf(c.App.Writer, "made %s on GPU %d: GPU instance %d at %d:%d, compute instance %d, %s\n",
					m.ComputeInstance.Profile, g.Index, m.GPUInstance.ID, m.GPUInstance.Start, m.GPUInstance.Size, m.ComputeInstance.ID, m.ComputeInstance.UUID)
			}
		}
		return err
	})
}

func migDestroyCommand() *cli.Command {
	cmd := command{
		name: "destroy", args: "GPU [GI[/CI]|all]", usage: "destroy a compute instance, a GPU instance with its compute instances, or all", min: 1, max: 2,
		description: "\nGI and CI are the numbers that \"gpu-sim mig list\" prints.",
	}
	return migCommandOn(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		gi, ci := state.WholeGPU, state.WholeGPU
		if what := c.Args().Get(1); what != "" && what != "all" {
			var err error
			if gi, ci, err = parseInstance(what); err != nil {
				return err
			}
		}
		if err := n.DestroyMIG(g, gi, ci); err != nil {
			return err
		}
		return printGPU(c, "destroyed instances of", g)
	})
}

// parseInstance parses "GI" or "GI/CI". Without CI, ci is state.WholeGPU.
func parseInstance(text string) (gi, ci int, err error) {
	first, second, part := strings.Cut(text, "/")
	gi, err = parseNumber(first)
	ci = state.WholeGPU
	if part && err == nil {
		ci, err = parseNumber(second)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("instance %q: want numbers as GI or GI/CI, see \"gpu-sim mig list\"", text)
	}
	return gi, ci, nil
}

func parseNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// instanceOf parses the instance of a flag. It returns the IDs in the form of an event.
func instanceOf(text string) (gi, ci uint32, err error) {
	gi, ci = state.NoInstance, state.NoInstance
	if text == "" {
		return gi, ci, nil
	}
	g, c, err := parseInstance(text)
	if err != nil {
		return 0, 0, err
	}
	if c != state.WholeGPU {
		ci = uint32(c)
	}
	return uint32(g), ci, nil
}

func resetCommand() *cli.Command {
	var takes time.Duration
	return command{
		name: "reset", args: "GPU", usage: "reset an unused GPU, as nvidia-smi --gpu-reset does", min: 1, max: 1,
		description: gpusHelp + "\nA pending MIG mode takes effect, instances are destroyed, and a requested recovery action is done.",
		flags: []cli.Flag{cmdline.Check(&cli.DurationFlag{
			Name: "takes", Value: defaultReset, Destination: &takes, Usage: "`DURATION` for which the GPU is lost",
		}, "0s or more", func(d time.Duration) bool { return d >= 0 })},
		run: func(c *cli.Context, n *node.Node) error {
			gpus, err := gpusAt(n, c.Args().First())
			for _, g := range gpus {
				if err == nil {
					err = n.Reset(c.Context, g, takes)
				}
				if err == nil {
					err = printGPU(c, "reset", g)
				}
			}
			if err != nil {
				return fmt.Errorf("reset: %w", err)
			}
			return nil
		},
	}.cli()
}

func rebootCommand() *cli.Command {
	return command{
		name: "reboot", usage: "reboot the node: all GPUs restart, and a loaded driver is loaded again",
		run: func(c *cli.Context, n *node.Node) error {
			if err := n.Reboot(); err != nil {
				return fmt.Errorf("reboot: %w", err)
			}
			_, err := fmt.Fprintf(c.App.Writer, "rebooted %s\n", n.Root())
			return err
		},
	}.cli()
}
