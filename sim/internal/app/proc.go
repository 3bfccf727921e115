package app

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// defaultReset is how long a GPU is lost in a reset: long enough to be seen.
const defaultReset = 200 * time.Millisecond

// firstMadeUp is above all that Linux numbers processes with.
const firstMadeUp = 1<<22 + 1

func procCommand() *cli.Command {
	return &cli.Command{
		Name: "proc", Usage: "simulate processes that use a GPU",
		Subcommands: []*cli.Command{procAddCommand(), procEndCommand(), procListCommand()},
	}
}

func procAddCommand() *cli.Command {
	cmd := command{
		parent: "proc", name: "add", args: "GPU", usage: "add a process to a GPU", min: 1,
		flags: []cli.Flag{
			&cli.UintFlag{Name: "pid", Usage: "`PID` of a running process, which uses the GPU until it exits (default: an invented PID)"},
			&cli.StringFlag{Name: "instance", Usage: "`GI/CI` that the process uses, as \"gpu-sim mig list\" prints them (default: the whole GPU)"},
			&cli.Uint64Flag{Name: "memory", Usage: "memory that the process uses, in `MIB`"},
		},
	}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		const mib = 1 << 20
		p := state.Process{GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, MemoryBytes: c.Uint64("memory") * mib}
		if text := c.String("instance"); text != "" {
			var err error
			if p.GPUInstance, p.ComputeInstance, err = parseInstance(text); err != nil {
				return err
			}
			if p.ComputeInstance == state.WholeGPU {
				return fmt.Errorf("proc add: instance %q: want GI/CI: a process uses a compute instance", text)
			}
		}
		var err error
		if p.PID = int(c.Uint("pid")); c.IsSet("pid") {
			err = n.State().AttachProcess(g.Slot, p)
		} else {
			p.PID = unusedPID(g)
			err = n.State().PutProcess(g.Slot, p)
		}
		if err != nil {
			return fmt.Errorf("proc add: %w", err)
		}
		return printGPU(c, fmt.Sprintf("process %d uses", p.PID), g)
	})
}

func unusedPID(g state.GPU) int {
	pid := firstMadeUp
	for _, p := range g.Processes {
		pid = max(pid, p.PID+1)
	}
	return pid
}

func procEndCommand() *cli.Command {
	cmd := command{parent: "proc", name: "end", args: "GPU PID", usage: "remove a process from a GPU", min: 2}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		pid, err := strconv.ParseUint(c.Args().Get(1), 10, 31)
		if err != nil || pid == 0 {
			return fmt.Errorf("proc end: PID %q: want a number that \"gpu-sim proc list\" prints", c.Args().Get(1))
		}
		if err := n.State().DropProcess(g.Slot, int(pid)); err != nil {
			return fmt.Errorf("proc end: %w", err)
		}
		return printGPU(c, fmt.Sprintf("process %d has left", pid), g)
	})
}

func procListCommand() *cli.Command {
	return command{
		parent: "proc", name: "list", args: "[GPU]", usage: "list the processes on GPUs", max: 1, description: gpuHelp,
		flags: []cli.Flag{jsonFlag()},
		run: func(c *cli.Context, n *node.Node) error {
			gpus := n.State().Show().GPUs
			if ref := c.Args().First(); ref != "" {
				g, err := gpuAt(n, ref)
				if err != nil {
					return fmt.Errorf("proc list: %w", err)
				}
				gpus = []state.GPU{g}
			}
			return printProcesses(c, gpus)
		},
	}.cli()
}

// processOn is one process in the output of "proc list".
type processOn struct {
	GPU int `json:"gpu"`
	state.Process
}

func printProcesses(c *cli.Context, gpus []state.GPU) error {
	list := []processOn{}
	for _, g := range gpus {
		for _, p := range g.Processes {
			list = append(list, processOn{g.Index, p})
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "GPU\tPID\tINSTANCE\tMEMORY\n")
	for _, p := range list {
		instance := "-"
		if p.GPUInstance != state.WholeGPU {
			instance = fmt.Sprintf("%d/%d", p.GPUInstance, p.ComputeInstance)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%d MiB\n", p.GPU, p.PID, instance, p.MemoryBytes>>20)
	}
	return t.Flush()
}
