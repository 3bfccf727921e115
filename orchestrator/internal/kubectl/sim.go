package kubectl

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/simulate"
	"outrigger.dev/pkg/cmdline"
)

// simulation is a command of gpu-sim that the plugin runs on a node. Its arguments follow the name of the node.
type simulation struct {
	name, args, usage string
	// flags are flags of gpu-sim with values, with their usage.
	flags [][2]string
	// min and max limit the number of arguments after the node. A max of -1 means no limit.
	min, max int
}

func simulations() []simulation {
	const gpu = "; GPU is an NVML index, a UUID, a PCI bus ID or the name of the device node"
	return []simulation{
		{"xid", "NODE GPU CODE", "raise an XID on a GPU" + gpu, [][2]string{{"instance", "`GI[/CI]` to which the XID belongs; by default the whole GPU"}}, 2, 2},
		{"lose", "NODE GPU", "take a GPU off the bus", [][2]string{{"how", "what fails: handle (NVML returns no handle) or calls (calls with a handle fail)"}}, 1, 1},
		{"heal", "NODE GPU", "recover a lost GPU", nil, 1, 1},
		{"reset", "NODE GPU", "reset an unused GPU", nil, 1, 1},
		{"load", "NODE [GPU UTILIZATION|off]", "make a GPU or MIG device show a utilization in percent (75, or 60-90), or list the loads of pods and by hand", [][2]string{{"memory", "used memory as a `QUANTITY`, such as 20Gi"}}, 0, 2},
		{"set", "NODE KEY=VALUE…", "set values of GPUs (0.temperature=85), the driver (driver=off), the latency of NVML or return codes", nil, 1, -1},
		{"mig", "NODE mode|create|destroy|list|profiles GPU [ARGUMENT…]", "partition a GPU: mode GPU on|off, create GPU PROFILE…, destroy GPU [all]", nil, 1, -1},
		{"plug", "NODE", "add a GPU", [][2]string{{"model", "`MODEL` of the GPU"}}, 0, 0},
		{"unplug", "NODE GPU", "remove a GPU", nil, 1, 1},
		{"show", "NODE", "show the driver and the GPUs", nil, 0, 0},
	}
}

func (s *settings) simCommand() *cli.Command {
	var commands []*cli.Command
	for _, sim := range simulations() {
		commands = append(commands, s.simulationCommand(sim))
	}
	return &cli.Command{
		Name: "sim", Usage: "change the GPUs of nodes that simulate them: faults, load, MIG devices, scenarios",
		Description: "The chart gpu-sim simulates the GPUs of these nodes. The commands run the program gpu-sim of its DaemonSet on the node, with\n" +
			"the rights of the caller. They refuse nodes with real GPUs.",
		Subcommands: append(commands, s.simPlayCommand()),
	}
}

// simulationCommand returns the command of the plugin for a command of gpu-sim.
func (s *settings) simulationCommand(sim simulation) *cli.Command {
	var flags []cli.Flag
	for _, f := range sim.flags {
		flags = append(flags, &cli.StringFlag{Name: f[0], EnvVars: []string{"OUTRIGGER_SIM_" + strings.ToUpper(f[0])}, Usage: f[1]})
	}
	return &cli.Command{
		Name: sim.name, ArgsUsage: sim.args, Usage: sim.usage, Flags: flags,
		Action: func(c *cli.Context) error {
			if n := c.NArg() - 1; n < sim.min || sim.max >= 0 && n > sim.max {
				return cmdline.Usagef("wrong number of arguments; usage: kubectl outrigger sim %s %s", sim.name, sim.args)
			}
			node := c.Args().First()
			client, err := s.open()
			if err != nil {
				return err
			}
			nodes, err := simulate.Open(c.Context, client, node)
			if err != nil {
				return err
			}
			if err := nodes.Check(c.Context, node); err != nil {
				return err
			}
			output, err := nodes.Run(c.Context, node, sim.words(c)...)
			fmt.Fprint(c.App.Writer, output)
			return err
		},
	}
}

// words returns the command line of gpu-sim: the command, its flags, and the arguments after the node.
func (sim simulation) words(c *cli.Context) []string {
	words := []string{sim.name}
	for _, f := range sim.flags {
		if c.IsSet(f[0]) {
			words = append(words, "--"+f[0]+"="+c.String(f[0]))
		}
	}
	return append(words, c.Args().Tail()...)
}
